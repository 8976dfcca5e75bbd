#pragma once
#include "app/picture_model_options.h"
#include "captioning/caption_text.h"
#include "captioning/look.h"
#include "tagging/tags.h"

namespace burnish::app {

/// Everything `burnish caption` can be told.
struct CaptionOptions {
  std::vector<std::string> folders;
  PictureModelOptions seen_by;
  std::string weight_format = "none";
  captioning::CaptionRule caption;
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

/// Refuses options that were given and belong to models that write, where the model is a tagger, and the other way round; `name` says what
/// the model is.
void check_belongs(const CaptionOptions& o, bool is_tagger, const std::string& name);

}  // namespace burnish::app
