#include "models/files.h"

#include "base/text.h"
#include "io/files.h"

namespace burnish::models {

namespace fs = std::filesystem;

const std::vector<std::string> kWeightStems{"diffusion_pytorch_model", "model", "pytorch_model"};

bool is_unused_component(const std::string& name) {
  return name == "safety_checker" || name == "feature_extractor" || name == "image_encoder";
}

const ModelEntry* ModelFiles::find(const std::function<bool(const ModelEntry&)>& wanted) const {
  for (const auto& entry : entries) {
    if (wanted(entry)) return &entry;
  }
  return nullptr;
}

std::optional<fs::path> ModelFiles::in_pipeline(const std::string& relative) const {
  for (const auto& folder : pipeline_folders) {
    if (io::is_there(folder / relative)) return folder / relative;
  }
  return std::nullopt;
}

std::string ModelFiles::describe() const {
  std::vector<std::string> labels;
  for (const auto& entry : entries) labels.push_back(entry.label);
  return labels.empty() ? "no model files" : join(labels);
}

}  // namespace burnish::models
