#pragma once
#include <filesystem>
#include <string>

namespace burnish::tokenizers {

/// Reads a tokenizer.json that holds a BPE of characters with bytes for what it does not know, as Gemma's does, and returns it as the bytes
/// of a SentencePiece model: special tokens are its control pieces, other added tokens its user-defined ones. A data Error when it is no
/// such tokenizer, or normalises or splits text otherwise.
std::string read_bpe_json(const std::filesystem::path& path);

}  // namespace burnish::tokenizers
