#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

/// What stands around a text in encoders that were trained on conversations.
struct ChatTemplate {
  std::string before = {}, after = {};
};

/// The byte-level BPE of Qwen2, Qwen2.5 and Qwen3, from a folder with vocab.json and merges.txt or a tokenizer.json. Texts are encoded
/// within the template, and end without a token of their own.
std::unique_ptr<Tokenizer> load_qwen(const std::filesystem::path& folder, const ChatTemplate& chat = {});

}  // namespace burnish::tokenizers
