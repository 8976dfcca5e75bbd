#pragma once
#include "captioning/caption_text.h"
#include "captioning/look.h"
#include "train/subject/model_choice.h"

namespace burnish::app {

/// Everything `burnish caption` can be told.
struct CaptionOptions {
  std::vector<std::string> folders;
  train::ModelChoice model;  ///< of which it lists those options that a language model has
  std::string processor_path, weight_format = "none";
  captioning::CaptionRule caption;
  captioning::WritingRule writing = {.max_new_tokens = 200};
  captioning::Detail detail = {.picture_pixels = 512 * 512, .frame_pixels = 256 * 512};
  captioning::FrameRule frames;
  std::string mode = "fill", style = "sentences", extension = ".txt";
  int64_t batch_size = 4;
  bool json = false;
};
void fields(config::Fields& f, CaptionOptions& o);

/// Refuses what makes no sense, all of it at once, before any file is opened, and settles what follows from words.
void check(CaptionOptions& o);

/// Names what decides a caption, for the command's journal.
std::string settings_of(const CaptionOptions& o);

}  // namespace burnish::app
