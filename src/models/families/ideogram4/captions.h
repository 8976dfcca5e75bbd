#pragma once
#include <string>

// Captions of Ideogram 4, which was trained with structured ones: JSON on one line.
namespace burnish::models::ideogram4 {

struct Caption {
  std::string text;     ///< what the text encoder is given
  std::string concern;  ///< a sentence about a caption that is not what the model was trained with; "" for others, and for an empty one
};
/// Reads a caption. JSON on several lines is put on one, in its order and without blanks between its parts; all else stays as it is.
Caption read_caption(const std::string& given);

}  // namespace burnish::models::ideogram4
