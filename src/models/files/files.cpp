#include "models/files/files.h"

#include <system_error>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"

namespace burnish::models {

namespace fs = std::filesystem;

const std::vector<std::string> kWeightStems{"diffusion_pytorch_model", "model", "pytorch_model"};

bool is_unused_component(const std::string& name) {
  return name == "safety_checker" || name == "feature_extractor" || name == "image_processor" || name == "image_encoder" || name == "pe" ||
         name == "pe_tokenizer" || name == "prompt_enhancer_head";
}

const ModelEntry* ModelFiles::find(const std::function<bool(const ModelEntry&)>& wanted) const {
  for (const auto& entry : entries) {
    if (wanted(entry)) return &entry;
  }
  return nullptr;
}

std::optional<fs::path> ModelFiles::in_pipeline(const std::string& relative) const {
  for (const auto& folder : pipeline_folders) {
    const auto path = folder / relative;
    std::error_code failed;
    if (fs::exists(path, failed)) return path;
    // What may not be looked at is no part that the model lacks.
    if (failed == std::errc::permission_denied) data_error("models", "cannot read {}: {}", path.string(), failed.message());
  }
  return std::nullopt;
}

void throw_naming(const std::string& place) {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), "models", place + ": " + without_source(error));
  }
}

std::string ModelFiles::describe() const {
  std::vector<std::string> labels;
  for (const auto& entry : entries) labels.push_back(entry.label);
  return labels.empty() ? "no model files" : join(labels);
}

}  // namespace burnish::models
