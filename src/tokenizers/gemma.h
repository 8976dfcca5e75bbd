#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

/// Gemma's SentencePiece BPE with bytes for what no piece knows, from a folder with tokenizer.model, or else with tokenizer.json: the token
/// that begins texts, and those of the text. Padding stands before a text.
std::unique_ptr<Tokenizer> load_gemma(const std::filesystem::path& folder);

/// Makes it of bytes that another file carries, `from`, which are those of a tokenizer.model or, where they begin with "{", of a
/// tokenizer.json.
std::unique_ptr<Tokenizer> gemma_of_bytes(const std::string& bytes, const std::filesystem::path& from);

}  // namespace burnish::tokenizers
