#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace burnish::tokenizers {

/// tokenizer_config.json with special_tokens_map.json laid over it; an empty object when a folder has neither.
nlohmann::json read_settings(const std::filesystem::path& folder);

/// A special token's text ("pad_token": "<pad>" or {"content": "<pad>"}), or `fallback`.
std::string special_token(const nlohmann::json& settings, const std::string& name, const std::string& fallback);

/// model_max_length, or 0 for none (transformers writes 1e30 then).
int64_t max_length(const nlohmann::json& settings);

}  // namespace burnish::tokenizers
