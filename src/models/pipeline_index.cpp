#include "models/pipeline_index.h"

#include "io/files.h"

namespace burnish::models {

const std::vector<std::string>& pipeline_indexes() {
  static const std::vector<std::string> kNames{"model_index.json", "modular_model_index.json"};
  return kNames;
}

std::optional<std::filesystem::path> pipeline_index(const std::filesystem::path& folder) {
  for (const auto& name : pipeline_indexes()) {
    if (io::is_there(folder / name)) return folder / name;
  }
  return std::nullopt;
}

}  // namespace burnish::models
