#include "app/mask_options.h"

#include "base/text.h"
#include "config/problems.h"

namespace burnish::app {

namespace {

constexpr int64_t kMostSmooth = 256, kMostExpand = 4096;

}  // namespace

void fields(config::Fields& f, MaskOptions& o) {
  f.group("Masks");
  f.positional("folder", o.folders, "folders of pictures, for which masks are written");
  f("only", o.seen_by.only, "pictures of the folder that are written for, by their names from it on; without it all of them");
  f("mask_prompt", o.prompts, "what is to count, \"a dog\" say; may be given several times, and then what is likely on average counts")
      .label("What to find");
  f("mask_mode", o.mode, "fill writes masks that are missing, replace all, add lets more count of those that are there, subtract less")
      .label("Masks that are there")
      .one_of({"fill", "replace", "add", "subtract"});
  f.path("mask_folder", o.mask_folder, "folder that masks are written into; \"\": beside the pictures");
  f("mask_threshold", o.rule.threshold, "how likely a pixel has to show what is named, 0 to 1").label("Threshold").at_least(0).at_most(1);
  f("smooth_pixels", o.rule.smooth_pixels, "likelihoods are averaged over squares that reach so many pixels of what the model sees")
      .label("Smooth")
      .at_least(0)
      .at_most(kMostSmooth)
      .in("pixels");
  f("expand_pixels", o.rule.expand_pixels, "the mask grows by so many pixels of the picture")
      .label("Grow")
      .at_least(0)
      .at_most(kMostExpand)
      .in("pixels");
  f("json", o.seen_by.json, "print what was written, and what could not be, as JSON, and nothing else");
  model_fields(f, o.seen_by, "CLIPSeg: its folder, or its id on a hub, which is fetched");
}

void check(const MaskOptions& o) {
  auto given = o;
  config::Fields listed;
  fields(listed, given);
  config::Problems problems(listed);
  problems.check_values();
  problems.gather([&] { train::check(o.seen_by.model); });
  if (o.folders.empty())
    problems.add("folder names the pictures that are to be masked; for example: burnish mask photos --mask_prompt \"a dog\"");
  if (!o.mask_folder.empty() && o.folders.size() > 1)
    problems.add("mask_folder is for the masks of one folder of pictures, and {} are named; give a command for each", o.folders.size());
  if (o.prompts.empty()) problems.add("mask_prompt says what is to count; for example --mask_prompt \"a dog\"");
  for (const auto& prompt : o.prompts) {
    if (trim(prompt).empty()) problems.add("mask_prompt is empty; say what is to count");
  }
  problems.refuse("mask");
}

masking::Join join_of(const MaskOptions& o) {
  if (o.mode == "add") return masking::Join::add;
  return o.mode == "subtract" ? masking::Join::subtract : masking::Join::replace;
}

}  // namespace burnish::app
