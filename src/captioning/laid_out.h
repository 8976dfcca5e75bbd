#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "captioning/regions.h"

namespace burnish::captioning {

/// Forms of a caption: a text, or JSON that says where what lies.
enum class Layout {
  text,
  elements,  ///< "compositional_deconstruction" with boxes in thousandths of the picture's sides
  items      ///< "summary" and "items" with boxes in pixels from the picture's middle
};
/// Returns the word for each, in the order of the enum.
const std::vector<std::string>& layout_names();

/// Says what form captions have.
struct LayoutRule {
  std::string name = "text";          ///< one of layout_names()
  std::string boxes = {};             ///< what boxes are put around: phrases, or a task of Florence-2; "": all that the model sees
  int64_t most_pixels = 1024 * 1024;  ///< pixels of a picture that boxes count in; a larger one counts as scaled to so many
  bool is_text() const { return name == layout_names().front(); }
};

/// Makes a caption in a form with boxes, JSON in one line, of its text and of what lies in a picture of these sides.
std::string laid_out(const LayoutRule& rule, const std::string& caption, const std::vector<Region>& regions, int64_t height, int64_t width);

}  // namespace burnish::captioning
