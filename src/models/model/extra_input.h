#pragma once
#include <cstdint>
#include <string_view>

#include "base/extent.h"

namespace burnish::models {

/// A column of the metadata that units can be told to read beside picture and prompt, as a value of its name.
struct ExtraInput {
  enum class Kind {
    pictures,  ///< one or a list: a list of [3, H, W] in [-1, 1], each scaled and cut by its own size
    numbers,   ///< one or a list: [1, N] fp32
    text,      ///< a text, or a list as JSON
    file,      ///< a safetensors file, whose one tensor is read: [1, N] fp32
    clip,      ///< of a row that is a clip the same frames of another one, else a picture of its size: [1, 3, F, H, W] in [-1, 1] or
               ///< [1, 3, H, W]
  };
  /// Tells whether it names files of pictures or clips.
  bool is_seen() const { return kind == Kind::pictures || kind == Kind::clip; }

  /// Returns the extent of a clip beside a row's.
  Extent extent_beside(const Extent& row) const { return square > 0 ? Extent{row.frames, square, square} : row; }

  std::string_view column;  ///< its name as DiffSynth-Studio has it
  Kind kind = Kind::pictures;
  std::string_view needs = {};    ///< the part of a model that reads it, for messages: "a ControlNet"
  bool fits_picture = false;      ///< whether its pictures are cut to the size of the row's picture
  int64_t square = 0;             ///< of a clip: the side of the square that it is cut to, whatever the row's size; 0: it is as the row's
  bool of_rows = false;           ///< whether it says of a row what is drawn says otherwise, so that no prompt gives it
  std::string_view example = {};  ///< a number or text that a plan without samples takes; of a file, how many numbers it holds
};

}  // namespace burnish::models
