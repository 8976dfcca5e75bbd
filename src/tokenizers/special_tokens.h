#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace burnish::tokenizers {

/// tokenizer_config.json with special_tokens_map.json laid over it; an empty object when a folder has neither.
nlohmann::json read_settings(const std::filesystem::path& folder);

/// A special token's text ("pad_token": "<pad>" or {"content": "<pad>"}), or `fallback`.
std::string special_token(const nlohmann::json& settings, const std::string& name, const std::string& fallback);

/// A token's id; a data Error for what is no number from 0 to 2^31 - 1.
int64_t token_id(const nlohmann::json& id);

/// model_max_length, or 0 for none (transformers writes 1e30 then).
int64_t max_length(const nlohmann::json& settings);

/// extra_ids: how many tokens <extra_id_N> a T5 vocabulary has behind its pieces, 100 where it is not said; a data Error for what is no
/// count.
int64_t num_extra_ids(const nlohmann::json& settings);

}  // namespace burnish::tokenizers
