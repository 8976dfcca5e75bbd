#pragma once
#include "app/picture_model_options.h"
#include "captioning/caption_text.h"
#include "captioning/laid_out.h"
#include "captioning/look.h"
#include "tagging/tags.h"

namespace burnish::app {

/// Everything `burnish caption` can be told.
struct CaptionOptions {
  std::vector<std::string> folders;
  PictureModelOptions seen_by;
  std::string weight_format = "none";
  captioning::CaptionRule caption;
  captioning::LayoutRule layout;
  captioning::WritingRule writing = {.max_new_tokens = 200};
  captioning::Detail detail = {.picture_pixels = 512 * 512, .frame_pixels = 256 * 512};
  captioning::FrameRule frames;
  tagging::TagRule tags;
  std::string tag_order = "likelihood";
  std::string mode = "fill", style = "sentences", extension = ".txt";
  int64_t batch_size = 4;
};
void fields(config::Fields& f, CaptionOptions& o);

/// Refuses what makes no sense, all of it at once, before any file is opened, and settles what follows from words.
void check(CaptionOptions& o);

/// The kinds of models that write captions.
enum class Captioner { language_model, joy_caption, florence2, tagger };
/// Refuses options that were given and belong to models of other kinds; `name` says what the model is.
void check_belongs(const CaptionOptions& o, Captioner kind, const std::string& name);

}  // namespace burnish::app
