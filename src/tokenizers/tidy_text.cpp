#include "tokenizers/tidy_text.h"

#include "tokenizers/html_text.h"
#include "tokenizers/mended_text.h"
#include "tokenizers/text_rules.h"
#include "tokenizers/white_space.h"

namespace burnish::tokenizers {

namespace {

class Tidying final : public Tokenizer {
 public:
  explicit Tidying(std::unique_ptr<Tokenizer> tokenizer) : Tokenizer(*tokenizer), tokenizer_(std::move(tokenizer)) {}
  std::vector<int64_t> encode(std::string_view text) const override { return tokenizer_->encode(tidy_text(text)); }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

class TidyingChat final : public ChatTokenizer {
 public:
  explicit TidyingChat(std::unique_ptr<ChatTokenizer> tokenizer) : ChatTokenizer(*tokenizer), tokenizer_(std::move(tokenizer)) {}
  std::vector<int64_t> encode(std::string_view text) const override { return tokenizer_->encode(tidy_text(text)); }
  std::vector<int64_t> encode_bare(std::string_view text) const override { return tokenizer_->encode_bare(text); }
  std::string decode(const std::vector<int64_t>& ids) const override { return tokenizer_->decode(ids); }

 private:
  std::unique_ptr<ChatTokenizer> tokenizer_;
};

}  // namespace

std::string tidy_text(std::string_view text) {
  const auto plain = unescaped(unescaped(mended(characters_of(text))));
  std::u32string out;
  bool is_apart = false;
  for (const auto c : plain) {
    if (is_white_space(static_cast<int32_t>(c))) {
      is_apart = !out.empty();
      continue;
    }
    if (is_apart) out += U' ';
    is_apart = false;
    out += c;
  }
  return utf8_of(out);
}

std::unique_ptr<Tokenizer> tidying(std::unique_ptr<Tokenizer> tokenizer) { return std::make_unique<Tidying>(std::move(tokenizer)); }

std::unique_ptr<ChatTokenizer> load_qwen_tidying(const std::filesystem::path& folder, const ChatTemplate& chat) {
  return std::make_unique<TidyingChat>(load_qwen(folder, chat));
}

}  // namespace burnish::tokenizers
