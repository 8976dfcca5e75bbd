#pragma once
#include <set>

#include "data/file_notes.h"
#include "data/found_references.h"
#include "data/row.h"

namespace burnish::data {

/// The findings of a row's files when they were looked at.
struct Looked {
  Size picture = {};  ///< size of the target before it is scaled and cut
  Size size = {};     ///< the size that it is scaled and cut to
  /// The sizes of pictures that are cut by their own size, or to a square, before they are, by column.
  std::map<std::string, std::vector<Size>> sizes = {};
  std::vector<FoundReference> references = {};  ///< those of the column that holds some
  std::set<std::string> stills = {};            ///< the columns in which a row of several frames has one picture for all of them
};

/// Looks at every file of the rows once: that it can be decoded (or that its header can be read), that targets are large enough, and that
/// what is cut as they are has their size. In the place of a clip's row come rows of the windows that its subset's rule takes out of it. A
/// row with a file that cannot be used is a bad one; the others are found, by row.
std::map<int64_t, Looked> look(Rows& rows, const DatasetOptions& options, FileNotes& notes);

}  // namespace burnish::data
