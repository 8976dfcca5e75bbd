#include "models/model/family.h"

#include <fmt/core.h>

#include <algorithm>

#include "io/model_values.h"
#include "models/families/sd3/keys.h"
#include "models/families/sd3/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::sd3 {

namespace {

constexpr const char *kPlacesMark = "pos_embed.pos_embed", *kOriginalMark = "joint_blocks.0.context_block.attn.qkv.weight";
const auto kT5Prefixes = text_prefixes({"t5xxl"});

Source find_dit(const ModelFiles& files) {
  // The blocks of a ControlNet have the same names.
  auto found = find_transformer(files, {kPlacesMark, kOriginalMark}, "SD3Transformer2DModel", "controlnet_blocks.0.weight");
  found.is_original = found.tensors && found.tensors->contains(kOriginalMark);
  if (found.is_original) found.keys = original_keys(io::count_of(found.tensors->shapes(), "joint_blocks.{}.x_block.attn.qkv.weight"));
  return found;
}

/// Tells OpenCLIP's bigG from CLIP-L, by what its config.json says or else by its width.
bool is_big(const ModelEntry& entry, const io::TensorSource& tensors, const std::string& table) {
  if (text::has_open_clip_names(tensors)) return true;
  std::string act;
  if (io::take(entry.config, "hidden_act", act, "CLIP text encoder")) return act == "gelu";
  return tensors.info(table).shape.back() != text::ClipConfig{}.width;
}

/// The prefixes of single files say which of the two stands below them.
Source find_clip(const ModelFiles& files, const std::string& word, bool big) {
  for (const auto& entry : files.entries) {
    for (const auto& prefix : text_prefixes({word})) {
      for (const char* mark :
           {"text_model.embeddings.token_embedding.weight", "embeddings.token_embedding.weight", "token_embedding.weight"}) {
        auto found = find_below(entry, {prefix}, mark);
        if (!found || (prefix.empty() && is_big(entry, *found, mark) != big)) continue;
        auto tensors = text::clip_tensors(*found, text::Projection::keep);
        return {&entry, tensors, text::clip_keys(tensors)};
      }
    }
  }
  return {};
}

/// Tells whether files hold the blocks of a transformer, whichever it is.
bool has_blocks(const ModelFiles& files) {
  const auto is_of_block = [](const std::string& name) {
    return name.find("transformer_blocks.0.") != name.npos || name.find("double_blocks.0.") != name.npos;
  };
  return std::ranges::any_of(
      files.entries, [&](const ModelEntry& entry) { return entry.tensors && std::ranges::any_of(entry.tensors->names(), is_of_block); });
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, clip, big_clip, t5, vae] = find_sources(one);
  if (!dit.tensors) return "";
  auto config = read_named(dit, detect);
  return words_of({{dit, fmt::format("SD 3.5 {} transformer ({} blocks, width {}, {} names)",
                                     config.dual_layers.empty() ? "Large" : "Medium", config.num_layers, config.width(), dit.names())},
                   {clip, "CLIP text encoder"},
                   {big_clip, "OpenCLIP text encoder"},
                   {t5, "T5 encoder"},
                   {vae, "KL autoencoder"}});
}

std::vector<ModelEntry> named_sizes(std::string_view name, const Config& config) {
  return {sizes_of<Transformer>(name, config), sizes_of<text::ClipTextModel>(name, text::ClipConfig{.projection_dim = 768}),
          sizes_of<text::ClipTextModel>(name, text::open_clip_big_g()), sizes_of<text::T5Encoder, text::T5Config>(name),
          sizes_of<vae::AutoencoderKL, vae::KlConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_clip(files, "clip_l", false), find_clip(files, "clip_g", true), find_t5(files, kT5Prefixes),
          find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "sd3",
    // A stage that only encodes may come without the transformer; the three text encoders are then the mark.
    .recognises =
        [](const ModelFiles& files) {
          if (find_dit(files).entry) return true;
          return !has_blocks(files) && find_clip(files, "clip_l", false).entry && find_clip(files, "clip_g", true).entry &&
                 find_t5(files, kT5Prefixes).entry;
        },
    .open = open_as<Sd3Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .variants = {{"sd3.5-medium",
                  [] { return named_sizes("sd3.5-medium", {}); },
                  "SD 3.5 Medium",
                  "stabilityai/stable-diffusion-3.5-medium",
                  {.num_inference_steps = 40, .cfg_scale = 4.5}},
                 {"sd3.5-large",
                  [] { return named_sizes("sd3.5-large", large()); },
                  "SD 3.5 Large",
                  "stabilityai/stable-diffusion-3.5-large",
                  {.cfg_scale = 3.5}},
                 {"sd3.5-large-turbo",
                  [] { return named_sizes("sd3.5-large-turbo", large()); },
                  "SD 3.5 Large",
                  "stabilityai/stable-diffusion-3.5-large-turbo",
                  {.num_inference_steps = 4}}},
    .license = {.name = "Stability AI Community License",
                .link = "https://stability.ai/community-license-agreement",
                .notice = "SD 3.5 is under the Stability AI Community License: companies above a yearly revenue that it names need a "
                          "commercial licence of Stability AI's, and what is shared of it says that it is powered by Stability AI"},
};

}  // namespace burnish::models::sd3
