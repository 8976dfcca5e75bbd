#include "models/vocabulary.h"

#include <algorithm>

#include "models/text/vocabulary_tensor.h"

namespace burnish::models {

std::string vocabulary_in(const ModelEntry& entry) {
  if (!entry.tensors) return "";
  auto names = entry.tensors->names();
  auto found = std::ranges::find_if(names, [](const std::string& name) {
    return name == text::kVocabularyTensor || name.ends_with(std::string(".") + text::kVocabularyTensor);
  });
  return found == names.end() ? "" : *found;
}

}  // namespace burnish::models
