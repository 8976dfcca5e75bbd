#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace burnish::tokenizers {

/// Makes the bytes of a SentencePiece model of a tokenizer.json that holds a BPE of characters with bytes for what it does not know, as
/// Gemma's does: special tokens are its control pieces, other added tokens its user-defined ones. `path` is where it lies, for messages. A
/// data Error when it is no such tokenizer, or normalises or splits text otherwise.
std::string model_of_bpe_json(const nlohmann::json& file, const std::filesystem::path& path);

}  // namespace burnish::tokenizers
