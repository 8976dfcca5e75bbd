#pragma once
#include <string>
#include <variant>
#include <vector>

#include "captioning/regions.h"
#include "models/model/components.h"
#include "models/parts/picture_texts.h"
#include "models/text/key_values.h"
#include "models/text/qwen3_vl_vision.h"
#include "models/text/qwen_vision.h"

namespace burnish::captioning {

// Shape letters: B texts, F frames, H height, W width, V tokens of the vocabulary.

/// A picture, or the frames of a clip, that a text is written about.
struct Shown {
  at::Tensor frames_FHW3;          ///< uint8; of a picture one
  std::vector<double> times = {};  ///< seconds of each frame of a clip; of a picture none
};

/// The most pixels of what a model is shown; 0 leaves what was published with it.
struct Detail {
  int64_t picture_pixels = 0, frame_pixels = 0;
};

/// A model that is shown pictures and writes about them: Qwen2.5-VL or Qwen3-VL (Bai et al. 2025, arXiv 2502.13923 and 2511.21631), found
/// among files as their hubs have them, as a diffusers folder has them in text_encoder/, or in single files of ComfyUI.
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
  const std::string& name() const { return kind_.name; }
  /// Returns the tokens that end a text: those that end a turn and a document, and those of generation_config.json beside the weights.
  const std::vector<int64_t>& stops() const { return stops_; }

  /// Makes the conversation in which what is shown stands before a prompt, up to where the answer begins.
  models::PictureText ask(const Shown& shown, const std::string& prompt, const Detail& detail);
  /// Returns what the model counts the numbers of boxes in, of the picture in a conversation: Qwen3-VL in thousandths, Qwen2.5-VL in pixels
  /// of what it was shown.
  BoxScale box_scale(const models::PictureText& text) const;
  /// Returns the place behind all of a text's places, where what is written begins.
  static int64_t next_place(const models::PictureText& text);

  /// Reads texts of equal tokens, whose pictures have equal sides, into an empty past. Returns the scores of the token behind them, fp32
  /// [B, V].
  at::Tensor read(const std::vector<models::PictureText>& texts, models::text::KeyValues& past);
  /// Reads one further token of each text, at its place. Returns the scores of the next one, fp32 [B, V].
  at::Tensor read_next(const std::vector<int64_t>& tokens, const std::vector<int64_t>& places, models::text::KeyValues& past);

 private:
  struct Kind {
    std::string name;
    tokenizers::ChatTemplate chat;
    bool tells_times = false;  ///< whether the time of frames stands before them as words; else they lie so far apart
  };
  void find_language_model();
  void find_tower(const std::string& processor_path);
  void find_head();
  void find_tokenizer();
  const models::text::Patching& patching() const;
  at::Tensor see(const at::Tensor& levels_F3HW);
  std::string told(const Shown& shown, size_t num_slices) const;
  void set_times(models::PictureText& text, const Shown& shown) const;
  at::Tensor scores(const at::Tensor& ids_BL, models::text::QwenReading reading);

  const models::ModelFiles& files_;
  const models::ModelOptions& options_;
  models::Components components_;
  Kind kind_;
  models::Source language_;
  models::text::QwenConfig config_;
  std::variant<models::text::VisionConfig, models::text::Qwen3VlVisionConfig> vision_;
  models::text::PixelRule pixels_;
  std::unique_ptr<tokenizers::ChatTokenizer> tokenizer_;
  std::vector<int64_t> stops_;
};

}  // namespace burnish::captioning
