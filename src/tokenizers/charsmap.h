#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::tokenizers {

/// The character map inside a SentencePiece model (its `precompiled_charsmap`: a double-array trie of byte strings and their
/// replacements), applied the way transformers' fast tokenizers do: a grapheme of fewer than six bytes is replaced as a whole by its
/// shortest known beginning, a longer one character by character. SentencePiece itself takes longest matches instead.
class Charsmap {
 public:
  /// Takes the map out of a serialised model; what is left normalises nothing. A data Error when the bytes are not such a model.
  explicit Charsmap(std::string& model_bytes);
  std::string apply(std::string_view text) const;

 private:
  /// The replacement of the shortest known beginning of `chunk`, or null.
  const char* find(std::string_view chunk) const;
  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace burnish::tokenizers
