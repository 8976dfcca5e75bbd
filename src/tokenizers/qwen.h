#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

/// A template of a conversation, which stands around a text in encoders that were trained on conversations.
struct ChatTemplate {
  std::string before = {}, after = {};
};

/// A tokenizer that encodes texts within a template.
class ChatTokenizer : public Tokenizer {
 public:
  /// The ids of a text as it is, without a template.
  virtual std::vector<int64_t> encode_bare(std::string_view text) const = 0;
  /// The text of ids, without the tokens beside the vocabulary and ids that there are not. What is no UTF-8 of it, half a character at its
  /// end say, becomes U+FFFD.
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
};

/// The byte-level BPE of Qwen2, Qwen2.5 and Qwen3, from a folder with vocab.json and merges.txt or a tokenizer.json. Texts are encoded
/// within the template, and end without a token of their own.
std::unique_ptr<ChatTokenizer> load_qwen(const std::filesystem::path& folder, const ChatTemplate& chat = {});
/// Loads Qwen3.5's, which takes marks for letters.
std::unique_ptr<ChatTokenizer> load_qwen35(const std::filesystem::path& folder, const ChatTemplate& chat = {});

/// Loads Llama 3's, which composes no characters and takes up to three digits together.
std::unique_ptr<ChatTokenizer> load_llama3(const std::filesystem::path& folder, const ChatTemplate& chat = {});

}  // namespace burnish::tokenizers
