#include "foreign/onetrainer_model.h"

#include <algorithm>

#include "base/text.h"

namespace burnish::foreign::of_onetrainer {

namespace {

const std::map<std::string, std::string> kOptimizers{{"adam", "adamw"},
                                                     {"adamw", "adamw"},
                                                     {"adamw_8bit", "adamw8bit"},
                                                     {"adam_8bit", "adamw8bit"},
                                                     {"adafactor", "adafactor"},
                                                     {"came", "came"},
                                                     {"lion", "lion"},
                                                     {"lion_8bit", "lion"},
                                                     {"prodigy", "prodigy"},
                                                     {"prodigy_plus_schedule_free", "prodigy_schedulefree"},
                                                     {"schedule_free_adamw", "adamw_schedulefree"},
                                                     {"muon", "muon"}};

/// Text encoders of these do not train there.
bool encoder_may_train(const Settings& all) {
  static const std::vector<std::string> kFrozen{"z_image", "flux_2", "krea_2", "anima", "ernie", "ideogram_4"};
  return !contains(kFrozen, lower(all.text("model_type")));
}

}  // namespace

std::string optimizer_of(const Settings& all) {
  auto it = kOptimizers.find(lower(all.text("optimizer.optimizer", "ADAMW")));
  return it == kOptimizers.end() ? "" : it->second;
}

/// Models with a UNet are called after their schedule's age: 1.5, 2.0, 2.1, XL.
bool has_unet(const Settings& all) {
  auto type = all.text("model_type", "DIFFUSION_15");
  for (const char* part : {"DIFFUSION_15", "DIFFUSION_20", "DIFFUSION_21", "DIFFUSION_XL"}) {
    if (type.find(part) != type.npos) return true;
  }
  return false;
}

/// SDXL's and FLUX.1's, and those with a third one.
bool has_second_encoder(const Settings& all) {
  auto type = lower(all.text("model_type"));
  return type.find("diffusion_xl") != type.npos || type == "flux_dev_1" || has_third_encoder(all);
}
bool has_third_encoder(const Settings& all) { return lower(all.text("model_type")) == "stable_diffusion_35"; }
std::string denoiser(const Settings& all) { return has_unet(all) ? "unet" : "dit"; }
std::string part_of(const Settings& all) { return has_unet(all) ? "unet" : "transformer"; }
bool is_lora(const Settings& all) { return all.text("training_method", "FINE_TUNE") == "LORA"; }
bool from_file(const Settings& all) { return all.on("lora_model_name"); }

/// Parts train unless the settings say otherwise.
bool trains(const Settings& all, const std::string& part) {
  if (part == "text_encoder" && !encoder_may_train(all)) return false;
  if (part == "text_encoder_2" && !has_second_encoder(all)) return false;
  if (part == "text_encoder_3" && !has_third_encoder(all)) return false;
  return !all.has(part + ".train") || all.on(part + ".train");
}

/// Tells optimizers that know no end of a run: no schedule counts for them.
bool is_schedule_free(const Settings& all) { return optimizer_of(all).ends_with("schedulefree"); }

double batches_per_update(const Settings& all) { return std::max(1.0, all.number("gradient_accumulation_steps").value_or(1)); }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (trains(all, part_of(all))) parts.push_back(denoiser(all));
  for (const char* encoder : kTextEncoders)
    if (trains(all, encoder)) parts.emplace_back(encoder);
  return join(parts, ",");
}

std::string bits(const Value& value) {
  auto word = text_of(value);
  return word == "BFLOAT_16" ? "bf16" : word == "FLOAT_16" ? "fp16" : word == "FLOAT_32" || word == "TFLOAT_32" ? "fp32" : "";
}

Outcome precision(const Value& value, const Settings&) {
  auto word = bits(value);
  return word.empty() ? left_out("a dtype is bf16, fp16 or fp32") : carried(word);
}

Outcome dtype(const Value& value, const Settings& all) { return dtype_of_run(bits(value), !has_unet(all) || !is_lora(all)); }

}  // namespace burnish::foreign::of_onetrainer
