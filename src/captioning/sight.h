#pragma once
#include <memory>
#include <string>
#include <vector>

#include "captioning/regions.h"
#include "models/model/components.h"
#include "models/parts/picture_texts.h"

// Here stands how language models see what they write about.
namespace burnish::captioning {

/// A picture, or the frames of a clip, that a text is written about.
struct Shown {
  at::Tensor frames_FHW3;          ///< uint8; of a picture one
  std::vector<double> times = {};  ///< seconds of each frame of a clip; of a picture none
};

/// The most pixels of what a model is shown; 0 leaves what was published with it.
struct Detail {
  int64_t picture_pixels = 0, frame_pixels = 0;
};

/// Holds what a model is asked by itself: for sentences, for tags, and how it is told the word for the subject. {what} stands for "image"
/// or "video", {word} for the word.
struct Prompts {
  std::string sentences, tags, subject;
};

/// The facts of a language model that sees.
struct Language {
  std::string name = {};  ///< "Qwen3-VL"
  models::Source source = {};
  models::text::QwenConfig config = {};
  tokenizers::ChatTemplate chat = {};
  decltype(&tokenizers::load_qwen) load = models::load_seeing_qwen;
  std::vector<std::string> ends = {};  ///< tokens that end a turn or a document
  Prompts prompts = {};
};

/// Finds the parts of a language model and makes conversations in which it sees.
class Sight {
 public:
  virtual ~Sight() = default;
  const Language& language() const { return language_; }
  /// Tells whether a model sees whole clips and pictures of any sides, and knows where things lie in them; others see one picture,
  /// squeezed into a square.
  virtual bool sees_all() const { return true; }
  /// Adds what sees to the components. A data Error where that is missing or does not fit. `processor_path` is the folder of its
  /// preprocessor_config.json, "" for what lies beside the model.
  virtual void add_tower(models::Components& components, const models::ModelFiles& files, const std::string& processor_path) = 0;
  /// Makes the conversation in which what is shown stands before a prompt, up to where the answer begins.
  virtual models::PictureText ask(models::Components& components, const tokenizers::ChatTokenizer& tokenizer, const Shown& shown,
                                  const std::string& prompt, const Detail& detail) const = 0;
  /// Returns what the model counts the numbers of boxes in, of the picture in a conversation.
  virtual BoxScale box_scale(const models::PictureText& text) const = 0;

 protected:
  explicit Sight(Language language) : language_(std::move(language)) {}

 private:
  Language language_;
};

/// The name of what sees among the components.
inline const std::string kTower = "vision_tower";
/// Returns what stands before a text encoder's tensors in ComfyUI's single files.
const std::vector<std::string>& single_file_prefixes();

/// Finds a Qwen2.5-VL or a Qwen3-VL, or nothing; the files must outlive it.
std::unique_ptr<Sight> find_qwen_sight(const models::ModelFiles& files);
/// Finds a JoyCaption, or nothing; the files must outlive it.
std::unique_ptr<Sight> find_joy_caption(const models::ModelFiles& files);

}  // namespace burnish::captioning
