#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::tokenizers {

struct Encoded {
  std::vector<int64_t> ids;  ///< exactly max_length of them
  int64_t num_tokens = 0;    ///< without padding
  int64_t first_token = 0;   ///< where they begin: behind the padding where that comes first
  bool truncated = false;
};

/// A tokenizer makes token ids of text.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// The ids of `text` with the special tokens around it, not truncated.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  /// The ids of `text` alone, without the special tokens around it.
  std::vector<int64_t> encode_inner(std::string_view text) const;
  /// Cut to `max_length`, an end token kept, then padded to it, at the end or, where its settings say so, at the beginning: transformers'
  /// padding="max_length", truncation=True.
  Encoded encode_padded(std::string_view text, int64_t max_length) const;
  /// The limit in tokenizer_config.json; 0 when it has none.
  int64_t model_max_length() const { return model_max_length_; }
  int64_t pad_id() const { return pad_id_; }
  int64_t end_id() const { return end_id_; }  ///< -1 where texts end without one
  /// The number of ids of the template that stands before a text.
  int64_t num_before() const { return num_before_; }
  /// Returns one more than the largest id in the vocabulary.
  int64_t num_ids() const { return num_ids_; }

 protected:
  int64_t model_max_length_ = 0;
  int64_t pad_id_ = 0;
  int64_t end_id_ = 0;
  int64_t num_ids_ = 0;
  int64_t num_before_ = 0;
  bool pads_first_ = false;
};

/// A word that stands for tokens of its own wherever a text has it, in the spelling that it has here.
struct Word {
  std::string text;
  std::vector<int64_t> ids;
};

/// Returns `tokenizer` with words beside its vocabulary. What stands between them is read as texts of its own; of two words that begin at
/// one place the longer one counts.
std::unique_ptr<Tokenizer> with_words(std::shared_ptr<const Tokenizer> tokenizer, std::vector<Word> words);

/// CLIP's byte-level BPE from a folder with vocab.json and merges.txt (or a tokenizer.json holding both). `pad_token` pads in place of the
/// one that the folder's settings name: OpenCLIP's encoders are padded with id 0, "!".
std::unique_ptr<Tokenizer> load_clip(const std::filesystem::path& folder, const std::string& pad_token = "");

/// T5's unigram model from a folder with spiece.model, or else with tokenizer.json.
std::unique_ptr<Tokenizer> load_t5(const std::filesystem::path& folder);

}  // namespace burnish::tokenizers
