#pragma once
#include "app/picture_model_options.h"
#include "captioning/caption_text.h"
#include "captioning/look.h"

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
  std::string mode = "fill", style = "sentences", extension = ".txt";
  int64_t batch_size = 4;
};
void fields(config::Fields& f, CaptionOptions& o);

/// Refuses what makes no sense, all of it at once, before any file is opened, and settles what follows from words.
void check(CaptionOptions& o);

}  // namespace burnish::app
