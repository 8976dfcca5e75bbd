#pragma once
#include "data/read.h"

namespace burnish::data {

/// A target that is drawn: no row has it, and what a prompt gives is brought to its size.
struct DrawnTarget {
  Column column = {};  ///< its frames a second are those at which what is drawn plays
  Extent extent = {};
  int64_t max_pixels = 0;  ///< the area down to which pictures of a size of their own are scaled; 0: they stay as large as they are
};

/// Reads what a prompt gives in a column beside a target that is drawn: its files, texts or numbers, one after the other.
///
/// Pictures are scaled and cut as those of rows are (data/read_row.h), but each by its own size, since there is no target's to share. Of a
/// clip the first frames are taken, as many as are drawn, at the rate at which these play; of a sound what is heard meanwhile. A
/// data Error for a clip that is shorter, a config Error for more cells than the column takes.
Cell read_given(const Column& column, const std::vector<std::string>& cells, const DrawnTarget& target);

/// Reads the first frames [count, H, W, C] of a clip that is gone on from. A config Error where no more are drawn, a data Error where the
/// clip is shorter.
at::Tensor read_beginning(const Column& column, const std::string& file, const DrawnTarget& target, int64_t count);

}  // namespace burnish::data
