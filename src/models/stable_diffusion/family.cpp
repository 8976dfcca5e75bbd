#include "models/family.h"

#include <fmt/core.h>

#include "base/text.h"
#include "models/stable_diffusion/model.h"

namespace burnish::models::stable_diffusion {

namespace {

Source find(const ModelFiles& files, std::optional<Part> (*part_of)(const io::TensorSource&)) {
  for (const auto& entry : files.entries) {
    if (!entry.tensors) continue;
    if (auto part = part_of(*entry.tensors)) return {&entry, part->tensors, part->keys};
  }
  return {};
}

Source find_unet(const ModelFiles& files) {
  if (auto found = find(files, unet_part); found.entry) return found;
  for (const auto& entry : files.entries) {
    if (!entry.tensors && entry.config.is_object() && entry.config.value("_class_name", "") == "UNet2DConditionModel")
      return {&entry, std::nullopt, {}};
  }
  return {};
}

bool recognises(const ModelFiles& files) {
  // A stage that only encodes may come without the UNet; the pair of text encoders is then the mark.
  return find_unet(files).entry || (find(files, text_encoder_part).entry && find(files, text_encoder_2_part).entry);
}

std::string describe(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  auto sources = find_sources(one);
  std::vector<std::string> parts;
  if (sources.unet.tensors) {
    auto config = detect(entry.config.is_null() ? nullptr : &entry.config, sources.unet.shapes());
    bool ours = sources.unet.tensors->contains("down_blocks.0.resnets.0.time_emb_proj.weight");
    parts.push_back(fmt::format("{} UNet ({} levels from {} channels, text of width {}, {} names{})",
                                has_added_embedding(config) ? "SDXL" : "SD 1.5", num_levels(config), config.block_out_channels.front(),
                                config.cross_attention_dim, ours ? "diffusers" : "original",
                                entry.tensors->contains("v_pred") ? ", v-prediction" : ""));
  }
  if (sources.text_encoder.entry) parts.push_back("CLIP text encoder");
  if (sources.text_encoder_2.entry) parts.push_back("OpenCLIP text encoder");
  if (sources.vae.entry) parts.push_back("KL autoencoder");
  return join(parts, " + ");
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_unet(files), find(files, text_encoder_part), find(files, text_encoder_2_part), find(files, vae_part)};
}

extern const Family kFamily{
    .name = "stable_diffusion",
    .recognises = recognises,
    .open = [](const ModelFiles& files, const ModelOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<StableDiffusionModel>(files, options);
    },
    .describe = describe,
    .own_options = {"prediction_type", "zero_terminal_snr", "clip_skip", "max_token_length", "fp16"},
};

}  // namespace burnish::models::stable_diffusion
