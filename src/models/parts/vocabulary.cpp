#include "models/parts/vocabulary.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "io/files.h"
#include "models/text/vocabulary_tensor.h"

namespace burnish::models {

std::string vocabulary_in(const ModelEntry& entry) {
  if (!entry.tensors) return "";
  auto names = entry.tensors->names();
  auto found = std::ranges::find_if(names, [](const std::string& name) {
    const auto last = name.substr(name.rfind('.') + 1);
    return last == text::kVocabularyTensor || last == text::kTokenizerTensor;
  });
  return found == names.end() ? "" : *found;
}

std::pair<std::string, at::Tensor> vocabulary_tensor(const std::filesystem::path& vocabulary) {
  auto bytes = io::read_text(vocabulary);
  return {text::kVocabularyTensor, at::from_blob(bytes.data(), {std::ssize(bytes)}, at::kByte).clone()};
}

}  // namespace burnish::models
