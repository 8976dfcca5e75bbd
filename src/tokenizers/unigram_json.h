#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace burnish::tokenizers {

/// A tokenizer.json that holds a unigram model, as transformers and the library tokenizers save T5's.
struct UnigramJson {
  std::string model;                                   ///< the vocabulary as the bytes of a SentencePiece model, with its character map
  std::vector<std::pair<std::string, int64_t>> added;  ///< tokens that are taken out of a text before all else, and their ids
  bool any_white_space = false;                        ///< words end at all white space of Unicode, not at blanks alone
};

/// Reads the file. A data Error when it is no such tokenizer, or normalises or splits text in a way that is not known here: of the steps
/// that its writers have, Precompiled, Strip, Replace of several blanks, WhitespaceSplit and Metaspace are.
UnigramJson read_unigram_json(const std::filesystem::path& path);

}  // namespace burnish::tokenizers
