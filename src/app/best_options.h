#pragma once
#include "app/picture_model_options.h"

namespace burnish::app {

/// Everything `burnish best` can be told.
struct BestOptions {
  std::vector<std::string> runs;
  PictureModelOptions seen_by;
  std::string pictures, held_out;
  int64_t num_pictures = 500, batch_size = 8;

  BestOptions() { seen_by.model.dtype = "fp32"; }
};
void fields(config::Fields& f, BestOptions& o);

/// Refuses what makes no sense, all of it at once, before any file is opened.
void check(const BestOptions& o);

}  // namespace burnish::app
