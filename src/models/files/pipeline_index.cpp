#include "models/files/pipeline_index.h"

#include <algorithm>
#include <map>
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

/// Reads what a modular index says behind the two words, "" where that is nothing: the model that a component is of, and its folder there.
static std::string said_of_place(const nlohmann::json& kind, const char* key) {
  if (!kind.is_array() || kind.size() != 3 || !kind[2].is_object()) return "";
  const auto said = kind[2].find(key);
  return said != kind[2].end() && said->is_string() ? said->get<std::string>() : "";
}

std::vector<IndexedComponent> components_in(const nlohmann::json& index) {
  std::vector<IndexedComponent> components;
  std::map<std::string, int> num_of_model;
  for (const auto& [name, kind] : index.items()) {
    // A library and a class, two words; in a modular index behind them where the component lies.
    const bool is_modular = kind.is_array() && kind.size() == 3 && kind[2].is_object();
    if (name.starts_with("_") || !kind.is_array() || kind.empty() || !(kind[0].is_string() || is_modular)) continue;
    const auto folder = said_of_place(kind, "subfolder");
    components.push_back({name, kind.size() > 1 && kind[1].is_string() ? kind[1].get<std::string>() : "", folder.empty() ? name : folder});
    ++num_of_model[said_of_place(kind, "pretrained_model_name_or_path")];
  }
  const auto most = std::ranges::max_element(num_of_model, {}, [](const auto& item) { return item.second; });
  for (auto& component : components)
    component.may_lie_elsewhere = said_of_place(index[component.name], "pretrained_model_name_or_path") != most->first;
  return components;
}

}  // namespace burnish::models
