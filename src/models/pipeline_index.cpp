#include "models/pipeline_index.h"

#include <nlohmann/json.hpp>

#include "io/files.h"

namespace burnish::models {

const std::vector<std::string> kIndexNames{"model_index.json", "modular_model_index.json"};

std::optional<std::filesystem::path> index_in(const std::filesystem::path& folder) {
  for (const auto& name : kIndexNames) {
    if (io::is_there(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::vector<IndexedComponent> components_in(const nlohmann::json& index) {
  std::vector<IndexedComponent> components;
  for (const auto& [name, kind] : index.items()) {
    // A library and a class, two words; in a modular index behind them where the component lies.
    const bool is_modular = kind.is_array() && kind.size() == 3 && kind[2].is_object();
    if (name.starts_with("_") || !kind.is_array() || kind.empty() || !(kind[0].is_string() || is_modular)) continue;
    IndexedComponent component{name, kind.size() > 1 && kind[1].is_string() ? kind[1].get<std::string>() : "", name, is_modular};
    if (is_modular) {
      const auto place = kind[2].find("subfolder");
      if (place != kind[2].end() && place->is_string() && !place->get<std::string>().empty()) component.folder = place->get<std::string>();
    }
    components.push_back(std::move(component));
  }
  return components;
}

}  // namespace burnish::models
