#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

namespace {

class WithWords final : public Tokenizer {
 public:
  WithWords(std::shared_ptr<const Tokenizer> tokenizer, std::vector<Word> words)
      : Tokenizer(*tokenizer), tokenizer_(std::move(tokenizer)), words_(std::move(words)) {}

  std::vector<int64_t> encode(std::string_view text) const override {
    auto ids = tokenizer_->encode("");  // what stands around every text
    const auto end = ids.end() - (end_id_ >= 0 ? 1 : 0);
    const auto inner = ids_of(text);
    ids.insert(end, inner.begin(), inner.end());
    return ids;
  }

 private:
  std::vector<int64_t> ids_of(std::string_view text) const {
    std::vector<int64_t> ids;
    while (!text.empty()) {
      const auto [at, word] = next_word(text);
      const auto plain = tokenizer_->encode_inner(text.substr(0, at));
      ids.insert(ids.end(), plain.begin(), plain.end());
      if (word == nullptr) break;
      ids.insert(ids.end(), word->ids.begin(), word->ids.end());
      text.remove_prefix(at + word->text.size());
    }
    return ids;
  }

  /// Where the first word begins, and which it is.
  std::pair<size_t, const Word*> next_word(std::string_view text) const {
    std::pair<size_t, const Word*> first{text.npos, nullptr};
    for (const auto& word : words_) {
      const auto at = text.find(word.text);
      if (at == text.npos || at > first.first || (at == first.first && word.text.size() <= first.second->text.size())) continue;
      first = {at, &word};
    }
    return first;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Word> words_;
};

}  // namespace

std::unique_ptr<Tokenizer> with_words(std::shared_ptr<const Tokenizer> tokenizer, std::vector<Word> words) {
  return std::make_unique<WithWords>(std::move(tokenizer), std::move(words));
}

}  // namespace burnish::tokenizers
