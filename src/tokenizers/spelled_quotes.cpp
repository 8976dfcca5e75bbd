#include "tokenizers/spelled_quotes.h"

#include <algorithm>

#include "tokenizers/unicode.h"

namespace burnish::tokenizers {

namespace {

using Codes = std::vector<int32_t>;
struct Marks {
  int32_t open, close;
};
constexpr Marks kMarks[] = {{'\'', '\''}, {'"', '"'}, {0x2018, 0x2019}, {0x201C, 0x201D}};

bool is_latin(int32_t code) { return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z'); }

/// Tells which apostrophes stand within words: between runs of letters, of which each counts for one.
std::vector<bool> within_words(const Codes& codes) {
  std::vector<bool> within(codes.size());
  for (size_t i = 0; i < codes.size();) {
    const auto begin = i;
    while (i < codes.size() && is_latin(codes[i])) ++i;
    const bool joins = i > begin && i + 1 < codes.size() && codes[i] == '\'' && is_latin(codes[i + 1]);
    if (!joins) {
      i = std::max(i, begin + 1);
      continue;
    }
    within[i++] = true;
    while (i < codes.size() && is_latin(codes[i])) ++i;
  }
  return within;
}

/// Returns where a quotation that begins at a place ends; the place itself where none does.
size_t quotation_end(const Codes& codes, const std::vector<bool>& within, size_t begin) {
  for (const auto& [open, close] : kMarks) {
    if (codes[begin] != open || within[begin]) continue;
    for (auto i = begin + 1; i < codes.size(); ++i) {
      if (within[i]) continue;
      if (codes[i] == close) return i + 1;
      if (codes[i] == open) break;
    }
  }
  return begin;
}

class SpelledQuotes final : public ChatTokenizer {
 public:
  SpelledQuotes(std::unique_ptr<ChatTokenizer> tokenizer, ChatTemplate chat)
      : ChatTokenizer(*tokenizer), tokenizer_(std::move(tokenizer)), chat_(std::move(chat)) {}

  std::vector<int64_t> encode(std::string_view text) const override {
    auto ids = tokenizer_->encode_bare(chat_.before);
    for (const auto& more : {encode_bare(text), tokenizer_->encode_bare(chat_.after)}) ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  }

  std::vector<int64_t> encode_bare(std::string_view text) const override {
    const auto codes = code_points(text);
    const auto within = within_words(codes);
    std::vector<int64_t> ids;
    std::string plain;
    auto flush = [&] {
      const auto more = tokenizer_->encode_bare(plain);
      ids.insert(ids.end(), more.begin(), more.end());
      plain.clear();
    };
    for (size_t i = 0; i < codes.size();) {
      const auto end = quotation_end(codes, within, i);
      if (end == i) plain += to_utf8(codes[i++]);
      else flush();
      for (; i < end; ++i) {
        plain = to_utf8(codes[i]);
        flush();
      }
    }
    flush();
    return ids;
  }

  std::string decode(const std::vector<int64_t>& ids) const override { return tokenizer_->decode(ids); }

 private:
  std::unique_ptr<ChatTokenizer> tokenizer_;
  ChatTemplate chat_;
};

}  // namespace

std::unique_ptr<ChatTokenizer> load_qwen_spelling_quotes(const std::filesystem::path& folder, const ChatTemplate& chat) {
  return std::make_unique<SpelledQuotes>(load_qwen(folder, chat), chat);
}

}  // namespace burnish::tokenizers
