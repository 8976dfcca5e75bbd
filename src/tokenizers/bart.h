#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

/// A tokenizer of a model that also writes, with tokens beside its vocabulary that stand for something else than text.
class MarkedTokenizer : public Tokenizer {
 public:
  /// The text of ids, without tokens beside the vocabulary and those around a text.
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
  /// The text of ids, tokens beside the vocabulary spelled as they are; those around a text are left out.
  virtual std::string decode_marked(const std::vector<int64_t>& ids) const = 0;
};

/// The byte-level BPE of BART (Lewis et al. 2019, arXiv 1910.13461; that of GPT-2), from a folder with vocab.json and merges.txt or a
/// tokenizer.json. `marks` are tokens that stand, in this order, behind the vocabulary; a folder that knows the first one knows them
/// itself.
std::unique_ptr<MarkedTokenizer> load_bart(const std::filesystem::path& folder, const std::vector<std::string>& marks = {});

}  // namespace burnish::tokenizers
