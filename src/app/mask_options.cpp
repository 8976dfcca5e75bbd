#include "app/mask_options.h"

#include "base/dtype.h"
#include "base/limits.h"
#include "base/text.h"
#include "config/problems.h"
#include "models/picture_texts.h"

namespace burnish::app {

namespace {

constexpr int64_t kMostSmooth = 256, kMostExpand = 4096;

void model_fields(config::Fields& f, MaskOptions& o) {
  f.group("Model");
  f.path("model", o.model.model, "CLIPSeg: its folder, or its id on a hub, which is fetched", {}, config::seen_from_if_there);
  f.path("tokenizer_path", o.model.tokenizer_path, "folder of its tokenizer, where it is not beside the model", {},
         config::seen_from_if_there);
  const auto processor = models::processor_option();
  f.path(processor.name, o.processor_path, processor.help);
  f("dtype", o.model.dtype, "fp32, bf16 or fp16: what the model is held and computed in").known(dtype_choices());
  f("device", o.model.device, "auto, cpu or cuda").one_of({"auto", "cpu", "cuda"});
  f("num_threads", o.model.num_threads, "CPU threads; 0 takes all cores, or as many as the quota of a container gives")
      .at_least(0)
      .at_most(kMostThreads);
}

}  // namespace

void fields(config::Fields& f, MaskOptions& o) {
  f.group("Masks");
  f.positional("folder", o.folders, "folders of pictures, for which masks are written");
  f("mask_prompt", o.prompts, "what is to count, \"a dog\" say; may be given several times, and then what is likely on average counts");
  f("mask_mode", o.mode, "fill writes masks that are missing, replace all, add lets more count of those that are there, subtract less")
      .one_of({"fill", "replace", "add", "subtract"});
  f.path("mask_folder", o.mask_folder, "folder that masks are written into; \"\": beside the pictures");
  f("mask_threshold", o.rule.threshold, "how likely a pixel has to show what is named, 0 to 1").at_least(0).at_most(1);
  f("smooth_pixels", o.rule.smooth_pixels, "likelihoods are averaged over squares that reach so many pixels of what the model sees")
      .at_least(0)
      .at_most(kMostSmooth)
      .in("pixels");
  f("expand_pixels", o.rule.expand_pixels, "the mask grows by so many pixels of the picture").at_least(0).at_most(kMostExpand).in("pixels");
  f("json", o.json, "print what was written, and what could not be, as JSON, and nothing else");
  model_fields(f, o);
}

void check(const MaskOptions& o) {
  auto given = o;
  config::Fields listed;
  fields(listed, given);
  config::Problems problems(listed);
  problems.check_values();
  problems.gather([&] { train::check(o.model); });
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

std::string settings_of(const MaskOptions& o) {
  auto listed = o;
  listed.json = false;
  listed.model.num_threads = 0;
  config::Fields all;
  fields(all, listed);
  return config::to_toml(all);
}

}  // namespace burnish::app
