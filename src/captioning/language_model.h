#pragma once
#include <string>
#include <vector>

#include "captioning/sight.h"
#include "models/text/key_values.h"

namespace burnish::captioning {

// Shape letters: B texts, F frames, H height, W width, V tokens of the vocabulary.

/// A model that is shown pictures and writes about them: Qwen2.5-VL, Qwen3-VL (Bai et al. 2025, arXiv 2502.13923 and 2511.21631) or
/// JoyCaption, found among files as their hubs have them, as a diffusers folder has them in text_encoder/, or in single files of ComfyUI.
class LanguageModel {
 public:
  /// Finds its parts by file headers; both must outlive this. A data Error where there is none, where it does not see, or where its head
  /// is missing. `processor_path` is the folder of its preprocessor_config.json, "" for what lies beside the model.
  LanguageModel(const models::ModelFiles& files, const models::ModelOptions& options, const std::string& processor_path);

  /// Returns its parts, language_model, lm_head (where it is not the table of tokens) and vision_tower, which are to be loaded before
  /// anything is read.
  models::Components& components() { return components_; }
  const models::Components& components() const { return components_; }
  /// Returns the names of the parts that every token is written with, which are what low bits make faster and smaller.
  static const std::vector<std::string>& written_with();
  const tokenizers::ChatTokenizer& tokenizer() const { return *tokenizer_; }
  const std::string& name() const { return sight_->language().name; }
  const Prompts& prompts() const { return sight_->language().prompts; }
  /// Tells whether it sees clips and pictures of any sides, and boxes in them (Sight).
  bool sees_all() const { return sight_->sees_all(); }
  /// Returns the tokens that end a text: those that end a turn and a document, and those of generation_config.json beside the weights.
  const std::vector<int64_t>& stops() const { return stops_; }

  /// Makes the conversation in which what is shown stands before a prompt, up to where the answer begins.
  models::PictureText ask(const Shown& shown, const std::string& prompt, const Detail& detail);
  /// Returns what the model counts the numbers of boxes in, of the picture in a conversation.
  BoxScale box_scale(const models::PictureText& text) const { return sight_->box_scale(text); }
  /// Returns the place behind all of a text's places, where what is written begins.
  static int64_t next_place(const models::PictureText& text);

  /// Reads texts of equal tokens, whose pictures have equal sides, into an empty past. Returns the scores of the token behind them, fp32
  /// [B, V].
  at::Tensor read(const std::vector<models::PictureText>& texts, models::text::KeyValues& past);
  /// Reads one further token of each text, at its place. Returns the scores of the next one, fp32 [B, V].
  at::Tensor read_next(const std::vector<int64_t>& tokens, const std::vector<int64_t>& places, models::text::KeyValues& past);

 private:
  void add_head();
  void find_tokenizer();
  at::Tensor scores(const at::Tensor& ids_BL, models::text::QwenReading reading);

  const models::ModelFiles& files_;
  const models::ModelOptions& options_;
  models::Components components_;
  std::unique_ptr<Sight> sight_;
  std::unique_ptr<tokenizers::ChatTokenizer> tokenizer_;
  std::vector<int64_t> stops_;
};

}  // namespace burnish::captioning
