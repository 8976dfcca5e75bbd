#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizers/special_tokens.h"

namespace burnish::tokenizers {

/// A byte-level BPE: a vocabulary, and which two neighbours become one token, the earliest of the list first (Sennrich et al. 2016, arXiv
/// 1508.07909; bytes as printable characters: GPT-2's encoder.py).
class BytePairs {
 public:
  /// Reads a folder's vocab.json and merges.txt, or else its tokenizer.json, or else its tekken.json. `word_end` is what marks a word's
  /// last symbol, "</w>" in CLIP, and may be empty; `what` is "CLIP" in messages. `check` refuses a tokenizer.json, or a tekken.json, that
  /// normalises or splits text in another way. A data Error when there is neither, or they are damaged.
  using Check = std::function<void(const nlohmann::json& file, const std::filesystem::path& path)>;
  BytePairs(const std::filesystem::path& folder, const std::string& what, std::string word_end, const Check& check);

  std::optional<int64_t> find(const std::string& token) const;
  /// Returns a token's id. A data Error when the vocabulary lacks the token.
  int64_t id_of(const std::string& token) const;
  /// The token of a byte within a word.
  std::optional<int64_t> find_byte(unsigned char byte) const { return find(symbols_[byte]); }
  /// Returns one more than the largest id.
  int64_t num_ids() const;
  /// Lists the tokens that a tokenizer.json or a tekken.json has beside the model's; none where neither was read.
  const std::vector<SpecialToken>& added() const { return added_; }
  /// Appends a word's tokens; of a symbol that the vocabulary lacks, the unknown one. A word that is a token is that one where the file
  /// says so, whatever merges make of it.
  void append(std::string_view word, int64_t unknown_id, std::vector<int64_t>& ids) const;
  /// Returns the text of ids, without `special` tokens and ids that the vocabulary lacks. Bytes that are no UTF-8, those of half a
  /// character say, become U+FFFD.
  std::string text_of(const std::vector<int64_t>& ids, const std::vector<SpecialToken>& special) const;

 private:
  struct Merge {
    int64_t rank, id;
  };
  /// Returns bytes as their printable characters.
  std::string symbols_of(std::string_view bytes) const;
  void read_files(const std::string& what, const Check& check);
  void read_vocab(const nlohmann::json& vocab);
  void read_merges_text(const std::filesystem::path& path);
  void read_tokenizer_json(const nlohmann::json& file, const std::string& what);
  void read_tekken(const nlohmann::json& file);
  void add_merges_into(const std::string& bytes);
  void add_merge(std::string_view line, const std::filesystem::path& path);
  void add_merge(const std::string& left, const std::string& right, const std::filesystem::path& path);
  const Merge* merge_of(int64_t left, int64_t right) const;
  std::vector<int64_t> merged(std::vector<int64_t> ids) const;

  std::filesystem::path folder_;
  std::string word_end_;
  std::array<std::string, 256> symbols_;
  std::unordered_map<std::string, int64_t> ids_;
  std::unordered_map<uint64_t, Merge> merges_;  ///< the merge of two ids, by both of them
  std::vector<SpecialToken> added_;
  bool takes_words_whole_ = false;
};

}  // namespace burnish::tokenizers
