#include "foreign/ai_toolkit_model.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/ai_toolkit_words.h"

namespace burnish::foreign::of_ai_toolkit {

namespace {

const std::map<std::string, std::string> kOptimizers{
    {"adam", "adamw"},          {"adamw", "adamw"},         {"adam8bit", "adamw8bit"},   {"adamw8bit", "adamw8bit"},
    {"lion", "lion"},           {"lion8bit", "lion"},       {"adafactor", "adafactor"},  {"prodigy", "prodigy"},
    {"prodigy8bit", "prodigy"}, {"automagic", "automagic"}, {"automagic2", "automagic"}, {"automagic3", "automagic"}};

}  // namespace

std::string optimizer_of(const Settings& all) {
  auto it = kOptimizers.find(lower(all.text("train.optimizer", "adamw")));
  return it == kOptimizers.end() ? "" : it->second;
}

/// Tells models with a UNet; of all others the alpha of an adapter is its rank, whatever it is given.
bool has_unet(const Settings& all) {
  auto arch = all.text("model.arch");
  if (arch.empty())
    return all.text("train.noise_scheduler", "ddpm") != "flowmatch" && !all.on("model.is_flux") && !all.on("model.is_v3") &&
           !all.on("model.is_lumina2");
  for (const char* name : {"sd", "sd1", "sd15", "sd2", "sdxl", "ssd", "vega"}) {
    if (arch == name) return true;
  }
  return false;
}

bool flows(const Settings& all) { return all.text("train.noise_scheduler", "ddpm") == "flowmatch" || !has_unet(all); }

double batches_per_update(const Settings& all) { return std::max(1.0, all.number("train.gradient_accumulation_steps").value_or(1)); }

int64_t updates(double num_batches, const Settings& all) { return static_cast<int64_t>(std::floor(num_batches / batches_per_update(all))); }

Outcome counted_in_batches(const Value& value, const Settings& all) {
  auto number = number_of(value);
  if (!number || batches_per_update(all) == 1) return carried(value);
  return carried(updates(*number, all), "counts batches there, and updates here");
}

bool trains_whole(const Settings& all) { return !all.has("network.type") && !has_ai_toolkit_word(all); }

std::string denoiser(const Settings& all) { return flows(all) ? "dit" : "unet"; }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (!all.has("train.train_unet") || all.on("train.train_unet")) parts.push_back(denoiser(all));
  if (all.on("train.train_text_encoder")) parts.emplace_back("text_encoder");
  if (all.on("train.train_text_encoder") && (all.on("model.is_xl") || all.text("model.arch") == "sdxl"))
    parts.emplace_back("text_encoder_2");
  if (all.on("model.model_kwargs.train_text_conditioner")) parts.emplace_back("text_conditioner");
  return join(parts, ",");
}

}  // namespace burnish::foreign::of_ai_toolkit
