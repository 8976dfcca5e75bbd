#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

/// Gemma's SentencePiece BPE with bytes for what no piece knows, from a folder with tokenizer.model, or else with tokenizer.json: the token
/// that begins texts, and those of the text. Padding stands before a text.
std::unique_ptr<Tokenizer> load_gemma(const std::filesystem::path& folder);

/// Makes it of a vocabulary as the bytes of a SentencePiece model; `from` is where they lie, for messages.
std::unique_ptr<Tokenizer> gemma_of_bytes(const std::string& model, const std::filesystem::path& from);

}  // namespace burnish::tokenizers
