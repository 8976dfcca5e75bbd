#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace burnish::tokenizers {

/// A token that is taken out of a text before all else, and its id.
using SpecialToken = std::pair<std::string, int64_t>;

/// Appends the ids of the special tokens in a text, of two that begin at one place the longer one, and has `plain` append those of what
/// stands between them.
void append_with_special(std::string_view text, const std::vector<SpecialToken>& special, std::vector<int64_t>& ids,
                         const std::function<void(std::string_view plain)>& plain);

/// Reads tokenizer_config.json with special_tokens_map.json laid over it; an empty object when a folder has neither.
nlohmann::json read_settings(const std::filesystem::path& folder);

/// The tokens beside the vocabulary that tokenizer_config.json (added_tokens_decoder) or added_tokens.json lists; none where neither does.
/// A data Error for a list that is damaged.
std::vector<SpecialToken> read_added_tokens(const std::filesystem::path& folder, const nlohmann::json& settings);

/// A special token's text ("pad_token": "<pad>" or {"content": "<pad>"}), or `fallback`.
std::string special_token(const nlohmann::json& settings, const std::string& name, const std::string& fallback);

/// A token's id; a data Error for what is no number from 0 to 2^31 - 1.
int64_t token_id(const nlohmann::json& id);

/// Reads model_max_length, or 0 for none (transformers writes 1e30 then).
int64_t max_length(const nlohmann::json& settings);

/// extra_ids: how many tokens <extra_id_N> a T5 vocabulary has behind its pieces, 100 where it is not said; a data Error for what is no
/// count.
int64_t num_extra_ids(const nlohmann::json& settings);

}  // namespace burnish::tokenizers
