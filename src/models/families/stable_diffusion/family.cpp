#include "models/model/family.h"

#include <fmt/core.h>

#include "base/limits.h"
#include "io/model_values.h"
#include "models/families/stable_diffusion/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::stable_diffusion {

namespace {

Source find(const ModelFiles& files, std::optional<ComponentTensors> (*part_of)(const io::TensorSource&)) {
  for (const auto& entry : files.entries) {
    if (!entry.tensors) continue;
    if (auto part = part_of(*entry.tensors)) return {&entry, part->tensors, part->keys};
  }
  return {};
}

Source find_unet(const ModelFiles& files) {
  if (auto found = find(files, unet_part); found.entry) return found;
  for (const auto& entry : files.entries) {
    if (!entry.tensors && io::class_name(entry.config) == "UNet2DConditionModel") return {&entry, std::nullopt, {}};
  }
  return {};
}

bool recognises(const ModelFiles& files) {
  // A stage that only encodes may come without the UNet; the pair of text encoders is then the mark.
  return find_unet(files).entry || (find(files, text_encoder_part).entry && find(files, text_encoder_2_part).entry);
}

std::string describe(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [unet, clip, open_clip, vae] = find_sources(one);
  auto config = unet.tensors ? read_named(unet, detect) : Config{};
  auto has = [&](const char* name) { return entry.tensors && entry.tensors->contains(name); };
  bool ours = unet.tensors && unet.tensors->contains("down_blocks.0.resnets.0.time_emb_proj.weight");
  return words_of(
      {{unet, fmt::format("{} UNet ({} levels from {} channels, text of width {}, {} names{})",
                          has_added_embedding(config) ? "SDXL" : "SD 1.5", num_levels(config), config.block_out_channels.front(),
                          config.cross_attention_dim, ours ? "diffusers" : "original", has("v_pred") ? ", v-prediction" : "")},
       {clip, "CLIP text encoder"},
       {open_clip, "OpenCLIP text encoder"},
       {vae, "KL autoencoder"}});
}

std::string why_no_token_length(const std::string& name, const OptionValue& value) {
  auto length = std::get<int64_t>(value);
  if (length % 75 == 0) return "";
  return fmt::format("{} must be 75, 150, 225 or another multiple of 75, not {}", name, length);
}

std::vector<Option> options() {
  return {{.name = "prediction_type",
           .help = "epsilon or v_prediction, of models with discrete timesteps; empty takes what the model's files say",
           .otherwise = std::string(),
           .elsewhere = "what it predicts is fixed: take it out",
           .choices = {"", "epsilon", "v_prediction"}},
          {.name = "zero_terminal_snr",
           .help = "the last discrete timestep is noise alone (for v_prediction)",
           .otherwise = false,
           .elsewhere = "its schedule ends in noise alone: take it out"},
          {.name = "clip_skip",
           .help = "CLIP's embedding is the output of this layer, counted from the last, 1; 0 takes the model's own",
           .otherwise = int64_t{0},
           .elsewhere = "take it out",
           .least = 0},
          {.name = "max_token_length",
           .help = "CLIP tokens of a prompt: 75, 150 or 225; 0 takes 75",
           .otherwise = int64_t{0},
           .elsewhere = "give max_sequence_length, or take it out",
           .why_wrong = why_no_token_length,
           .least = 0,
           .most = kMostTokens},
          tile_option()};
}

/// UNet, the text encoder that all have, and the autoencoder.
std::vector<ModelEntry> named_sizes(std::string_view name, const Config& config) {
  const vae::KlConfig vae_config{.latent_channels = 4, .use_quant_conv = true, .use_post_quant_conv = true};
  return {sizes_of<UNet>(name, config), sizes_of<text::ClipTextModel, text::ClipConfig>(name),
          sizes_of<vae::AutoencoderKL>(name, vae_config)};
}

/// Returns the components of SDXL, which has a second text encoder.
std::vector<ModelEntry> published_sdxl() {
  auto entries = named_sizes("sdxl", {});
  entries.push_back(sizes_of<text::ClipTextModel>("sdxl", text::open_clip_big_g()));
  return entries;
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_unet(files), find(files, text_encoder_part), find(files, text_encoder_2_part), find(files, vae_part)};
}

extern const Family kFamily{
    .name = "stable_diffusion",
    .recognises = recognises,
    .open = open_as<StableDiffusionModel>,
    .describe = describe,
    .options = options(),
    .denoisers = {"unet"},
    .takes_fp16 = true,
    .variants = {{"sdxl", published_sdxl, "SDXL", "stabilityai/stable-diffusion-xl-base-1.0", {.num_inference_steps = 30, .cfg_scale = 6}},
                 {"sd15",
                  [] { return named_sizes("sd15", sd15()); },
                  "SD 1.5",
                  "stable-diffusion-v1-5/stable-diffusion-v1-5",
                  {.side = 512, .num_inference_steps = 30, .cfg_scale = 7}}},
};

}  // namespace burnish::models::stable_diffusion
