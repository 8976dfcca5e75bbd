#include "tokenizers/special_tokens.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/json.h"

namespace burnish::tokenizers {

namespace {

/// Where the first special token begins, and which it is.
std::pair<size_t, const SpecialToken*> next_special(std::string_view text, const std::vector<SpecialToken>& special) {
  size_t first = std::string_view::npos;
  const SpecialToken* found = nullptr;
  for (const auto& token : special) {
    auto at = token.first.empty() ? std::string_view::npos : text.find(token.first);
    if (at == std::string_view::npos || at > first || (at == first && token.first.size() <= found->first.size())) continue;
    first = at;
    found = &token;
  }
  return {first, found};
}

}  // namespace

void append_with_special(std::string_view text, const std::vector<SpecialToken>& special, std::vector<int64_t>& ids,
                         const std::function<void(std::string_view)>& plain) {
  while (true) {
    auto [at, token] = next_special(text, special);
    plain(text.substr(0, at));
    if (token == nullptr) return;
    ids.push_back(token->second);
    text.remove_prefix(at + token->first.size());
  }
}

nlohmann::json read_settings(const std::filesystem::path& folder) {
  auto settings = nlohmann::json::object();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (auto path = folder / name; std::filesystem::exists(path)) {
      if (auto json = io::read_json(path); json.is_object()) settings.update(json);
    }
  }
  return settings;
}

std::vector<SpecialToken> read_added_tokens(const std::filesystem::path& folder, const nlohmann::json& settings) {
  std::vector<SpecialToken> added;
  try {
    if (auto listed = settings.find("added_tokens_decoder"); listed != settings.end()) {
      for (const auto& [id, token] : listed->items()) {
        added.emplace_back(token.at("content").get<std::string>(), token_id(nlohmann::json::parse(id)));
      }
    } else if (auto path = folder / "added_tokens.json"; std::filesystem::exists(path)) {
      const auto tokens = io::read_json(path);
      for (const auto& [token, id] : tokens.items()) added.emplace_back(token, token_id(id));
    }
  } catch (const nlohmann::json::exception&) {
    data_error("tokenizers", "the list of added tokens in {} is damaged: each needs an id and a text; save the tokenizer anew",
               folder.string());
  }
  return added;
}

std::string special_token(const nlohmann::json& settings, const std::string& name, const std::string& fallback) {
  auto it = settings.find(name);
  if (it == settings.end()) return fallback;
  if (it->is_string()) return it->get<std::string>();
  auto content = it->is_object() ? it->find("content") : it->end();
  return content != it->end() && content->is_string() ? content->get<std::string>() : fallback;
}

int64_t token_id(const nlohmann::json& id) {
  if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max())
    data_error("tokenizers", "the tokenizer gives a token the id {}; its file is damaged", id.dump(-1, ' ', true));
  return id.get<int64_t>();
}

int64_t max_length(const nlohmann::json& settings) {
  auto it = settings.find("model_max_length");
  if (it == settings.end() || !it->is_number()) return 0;
  auto value = it->get<double>();
  return value > 0 && value < 1e9 ? static_cast<int64_t>(value) : 0;
}

int64_t num_extra_ids(const nlohmann::json& settings) {
  auto it = settings.find("extra_ids");
  if (it == settings.end() || it->is_null()) return 100;
  if (!it->is_number_integer() || *it < 0 || *it > 10000)
    data_error("tokenizers", "the tokenizer's extra_ids is {}, and must be a number from 0 to 10000", it->dump(-1, ' ', true));
  return it->get<int64_t>();
}

}  // namespace burnish::tokenizers
