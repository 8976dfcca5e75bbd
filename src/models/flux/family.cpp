#include "models/family.h"

#include <fmt/core.h>

#include "base/text.h"
#include "io/model_values.h"
#include "models/flux/keys.h"
#include "models/flux/model.h"
#include "models/shared_components.h"

namespace burnish::models::flux {

namespace {

/// Prefixes under which single files keep the transformer: none (BFL), or those of ComfyUI's checkpoints.
const std::vector<std::string> kDitPrefixes{"", "model.diffusion_model.", "diffusion_model."};
const std::vector<std::string> kClipPrefixes{"", "text_encoders.clip_l.transformer.", "text_encoders.clip_l."};
const std::vector<std::string> kT5Prefixes{"", "text_encoders.t5xxl.transformer.", "text_encoders.t5xxl."};
Source find_dit(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (entry.tensors && entry.tensors->contains("controlnet_x_embedder.weight")) continue;  // of which the blocks have the same names
    for (const char* mark : {"transformer_blocks.0.norm1_context.linear.weight", "single_transformer_blocks.0.norm.linear.weight"}) {
      if (auto tensors = find_below(entry, kDitPrefixes, mark)) return {&entry, tensors, {}};
    }
    for (const char* mark : {"double_blocks.0.img_mod.lin.weight", "single_blocks.0.modulation.lin.weight"}) {
      if (auto tensors = find_below(entry, kDitPrefixes, mark)) return {&entry, tensors->without({kConnectorPrefix}), bfl_keys()};
    }
    bool config_only = !entry.tensors && io::class_name(entry.config) == "FluxTransformer2DModel";
    if (config_only) return {&entry, std::nullopt, {}};
  }
  return {};
}

Source find_clip(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (is_siglip(entry)) continue;
    for (const char* mark : {"text_model.embeddings.token_embedding.weight", "embeddings.token_embedding.weight"}) {
      if (auto tensors = find_below(entry, kClipPrefixes, mark)) return {&entry, text::clip_tensors(*tensors), {}};
    }
  }
  return {};
}

std::string describe(const ModelEntry& entry) {
  ModelFiles one{{entry}, {}};
  auto sources = find_sources(one);
  std::vector<std::string> parts;
  if (sources.dit.entry && sources.dit.tensors) {
    auto shapes = io::shapes_in_our_names(*sources.dit.tensors, sources.dit.keys);
    auto config = naming(entry.label, [&] { return detect(entry.config.is_null() ? nullptr : &entry.config, shapes); });
    bool bfl = sources.dit.keys.to_ours("img_in.weight").ours[0] != "img_in.weight";
    parts.push_back(fmt::format("{} transformer ({} double and {} single blocks, width {}, {} names)",
                                config.guidance_embeds ? "FLUX.1-dev" : "FLUX.1-schnell", config.num_double_blocks,
                                config.num_single_blocks, config.width(), bfl ? "original" : "diffusers"));
  }
  for (auto& part : extras_in(one)) parts.push_back(std::move(part));
  if (Step1x::is_in(one)) parts.push_back("Step1X-Edit connector");
  if (sources.text_encoder.entry) parts.push_back("CLIP text encoder");
  if (sources.text_encoder_2.entry) parts.push_back("T5 encoder");
  if (sources.vae.entry) parts.push_back("KL autoencoder");
  return join(parts, " + ");
}

std::vector<ModelEntry> named_sizes(std::string_view name, const Config& config) {
  auto options = at::TensorOptions().device(at::kMeta);
  Transformer dit(config, options);
  text::ClipTextModel clip({}, options);
  text::T5Encoder t5({}, options);
  vae::AutoencoderKL vae({}, options);
  return {sizes_of(name, dit), sizes_of(name, clip), sizes_of(name, t5), sizes_of(name, vae)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_clip(files), find_t5(files, kT5Prefixes), find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "flux",
    // A stage that only encodes may come without the transformer; the pair of text encoders is then the mark.
    .recognises =
        [](const ModelFiles& files) { return find_dit(files).entry || (find_clip(files).entry && find_t5(files, kT5Prefixes).entry); },
    .open = [](const ModelFiles& files, const ModelOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<FluxModel>(files, options);
    },
    .describe = describe,
    .options = {prompt_length_option(),
                {.name = "embedded_guidance",
                 .help = "guidance value given to models that embed it",
                 .otherwise = 1.0,
                 .elsewhere = "it embeds no guidance: take it out",
                 .about = Option::About::guidance,
                 .when_drawing = 3.5},
                tile_option()},
    .reference_columns = {kReferenceColumn, kStep1xColumn},
    .extra_inputs = {std::begin(kExtraInputs), std::end(kExtraInputs)},
    .variants = {{"flux-dev", [] { return named_sizes("flux-dev", {}); }},
                 {"flux-schnell", [] { return named_sizes("flux-schnell", {.guidance_embeds = false}); }}},
};

}  // namespace burnish::models::flux
