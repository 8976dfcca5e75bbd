#include "tokenizers/special_tokens.h"

#include <nlohmann/json.hpp>

#include "io/json.h"

namespace burnish::tokenizers {

nlohmann::json read_settings(const std::filesystem::path& folder) {
  auto settings = nlohmann::json::object();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (auto path = folder / name; std::filesystem::exists(path)) {
      if (auto json = io::read_json(path); json.is_object()) settings.update(json);
    }
  }
  return settings;
}

std::string special_token(const nlohmann::json& settings, const std::string& name, const std::string& fallback) {
  auto it = settings.find(name);
  if (it == settings.end()) return fallback;
  if (it->is_string()) return it->get<std::string>();
  return it->is_object() ? it->value("content", fallback) : fallback;
}

int64_t max_length(const nlohmann::json& settings) {
  auto it = settings.find("model_max_length");
  if (it == settings.end() || !it->is_number()) return 0;
  auto value = it->get<double>();
  return value > 0 && value < 1e9 ? static_cast<int64_t>(value) : 0;
}

}  // namespace burnish::tokenizers
