#pragma once
#include "app/picture_model_options.h"
#include "masking/mask.h"

namespace burnish::app {

/// Everything `burnish mask` can be told.
struct MaskOptions {
  std::vector<std::string> folders, prompts;
  PictureModelOptions seen_by;
  std::string mask_folder, mode = "fill";
  masking::MaskRule rule;

  MaskOptions() { seen_by.model.model = {"CIDAS/clipseg-rd64-refined"}, seen_by.model.dtype = "fp32"; }
};
void fields(config::Fields& f, MaskOptions& o);

/// Refuses what makes no sense, all of it at once, before any file is opened.
void check(const MaskOptions& o);

/// Returns what the mode does to a mask that is there.
masking::Join join_of(const MaskOptions& o);

}  // namespace burnish::app
