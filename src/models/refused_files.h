#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/files/files.h"

// Files that look like those of a family and are another's, or whose weights are packed in a way that no code reads. They are refused by
// name before a family takes them, for what it would compute of them is noise.
namespace burnish::models {

/// A tensor that tells a model, and where its name does not the length of one side.
struct Mark {
  std::string_view tensor;
  size_t dim = 0;
  int64_t length = 0;  ///< 0: any
};

/// A model that is not trained here, whose transformer has names of one that is.
struct LookAlike {
  std::string_view name;
  std::vector<std::string_view> classes = {};  ///< the class that its config.json names
  std::vector<Mark> has = {};                  ///< all of them tell it where no config.json does; none: nothing does
  std::string_view lacks = {};                 ///< and that it has no tensor of this name
  std::string_view taken_by = {};              ///< the tensor by which a family would take it; "": none would
};
const std::vector<LookAlike>& look_alikes();

/// Returns which of these an entry holds; null: none.
const LookAlike* look_alike_in(const ModelEntry& entry);

/// Returns how an entry's weights are packed and the tensor that says it, where that is not read here: "NVFP4 (…)"; or "".
std::string unread_packing(const ModelEntry& entry);

/// Throws a data Error where one of the files is such a model, or packed so.
void refuse_unread(const ModelFiles& files);

}  // namespace burnish::models
