#pragma once
#include "masking/mask.h"
#include "train/subject/model_choice.h"

namespace burnish::app {

/// Everything `burnish mask` can be told.
struct MaskOptions {
  std::vector<std::string> folders, prompts;
  train::ModelChoice model;  ///< of which it lists those options that CLIPSeg has
  std::string processor_path, mask_folder, mode = "fill";
  masking::MaskRule rule;
  bool json = false;

  MaskOptions() { model.model = {"CIDAS/clipseg-rd64-refined"}, model.dtype = "fp32"; }
};
void fields(config::Fields& f, MaskOptions& o);

/// Refuses what makes no sense, all of it at once, before any file is opened.
void check(const MaskOptions& o);

/// What the mode does to a mask that is there.
masking::Join join_of(const MaskOptions& o);

/// Names what decides a mask, for the command's journal.
std::string settings_of(const MaskOptions& o);

}  // namespace burnish::app
