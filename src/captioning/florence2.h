#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "captioning/beam_search.h"
#include "captioning/davit.h"
#include "models/model/components.h"
#include "models/text/patches.h"
#include "tokenizers/bart.h"

namespace burnish::captioning {

// Shape letters: B pictures, H height, W width, S side of what the eye sees, N tokens of a picture, E their width.

/// Returns what a task that is named by its mark, as in transformers ("<CAPTION>", "<CAPTION_TO_PHRASE_GROUNDING>a cat"), asks the model in
/// words; a text of another kind as it is.
std::string sentence_of(const std::string& asked);

/// A model that writes captions of pictures, and what lies where in them: Florence-2 (Xiao et al. 2023, arXiv 2311.06242), by files in
/// transformers' names or in those of Microsoft's folders.
class Florence2 {
 public:
  static bool is_in(const models::ModelFiles& files);
  /// Finds its parts by file headers; both must outlive this. A data Error where there is none. `processor_path` is the folder of its
  /// preprocessor_config.json, "" for what lies beside the model.
  Florence2(const models::ModelFiles& files, const models::ModelOptions& options, const std::string& processor_path);

  /// Returns its parts, eye and language model, which are to be loaded before anything is seen.
  models::Components& components() { return components_; }
  static const char* name() { return "Florence-2"; }
  const tokenizers::MarkedTokenizer& tokenizer() const { return *tokenizer_; }

  /// Makes what the eye takes of a picture, uint8 [H, W, 3]: scaled to a square by Pillow's bicubic filter, normalised, fp32 [3, S, S].
  at::Tensor shown(const at::Tensor& picture_HW3) const;
  /// Looks at pictures that `shown` made -> their tokens [B, N, E].
  at::Tensor see(const at::Tensor& image_B3SS);
  /// Makes the input of the decoder: the encoder's states of pictures behind each of which stands what is asked (sentence_of).
  at::Tensor read(const at::Tensor& tokens_BNE, const std::string& asked);
  /// Writes an answer for each picture: `rule` says how many beams and tokens; nothing where `goes_on` ends it.
  std::optional<std::vector<FoundText>> answer(const at::Tensor& tokens_BNE, const std::string& asked, const BeamRule& rule,
                                               const std::function<bool()>& goes_on = {});

 private:
  void find_parts();
  void find_tokenizer();
  void read_processor(const std::string& processor_path);

  const models::ModelFiles& files_;
  const models::ModelOptions& options_;
  models::Components components_;
  const models::ModelEntry* entry_ = nullptr;
  DavitConfig eye_;
  BartConfig bart_;
  models::text::PixelRule pixels_;  ///< of which colours count
  int64_t side_ = 768;              ///< of the square that pictures are scaled to
  int64_t no_repeat_ = 3;           ///< BeamRule::no_repeat
  std::unique_ptr<tokenizers::MarkedTokenizer> tokenizer_;
};

}  // namespace burnish::captioning
