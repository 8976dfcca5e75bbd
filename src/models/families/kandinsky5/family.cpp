#include "models/model/family.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/families/kandinsky5/model.h"
#include "models/parts/clip_towers.h"

namespace burnish::models::kandinsky5 {

namespace {

const auto kQwenPrefixes = text_prefixes({"qwen25_7b"}), kClipPrefixes = text_prefixes({"clip_l"});
constexpr const char* kMark = "visual_embeddings.in_layer.weight";

Source find_dit(const ModelFiles& files) { return find_transformer(files, {kMark}, "Kandinsky5Transformer3DModel"); }

/// Tells whether these are the files of a stage that only encodes, which may come without the transformer: both text encoders, which no
/// other family has side by side.
bool only_encode(const ModelFiles& files) {
  const auto sources = find_sources(files);
  if (!sources.text_encoder.entry || !sources.text_encoder_2.entry) return false;
  const std::vector known{sources.text_encoder.entry, sources.text_encoder_2.entry, sources.vae.entry};
  return std::ranges::all_of(files.entries, [&](const ModelEntry& entry) { return std::ranges::find(known, &entry) != known.end(); });
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, clip, vae] = find_sources(one);
  if (!dit.tensors) return "";
  const auto config = read_named(dit, detect);
  return words_of(
      {{dit, fmt::format("Kandinsky 5 {} Lite transformer ({} blocks of texts and {} of pictures, width {}, {} names)",
                         config.reads_picture ? "I2I" : "T2I", config.num_text_blocks, config.num_blocks, config.width, dit.names())},
       {text, "Qwen2.5 text encoder"},
       {image, "vision tower"},
       {clip, "CLIP text encoder"},
       {vae, "KL autoencoder"}});
}

std::vector<ModelEntry> named_sizes(std::string_view name) {
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen25_vl_7b()),
          sizes_of<text::ClipTextModel, text::ClipConfig>(name), sizes_of<vae::AutoencoderKL, vae::KlConfig>(name)};
}

/// Returns the components of a model that changes pictures.
std::vector<ModelEntry> seeing_sizes(std::string_view name) {
  return {sizes_of<Transformer>(name, Config{.reads_picture = true}), sizes_of<text::QwenEncoder>(name, text::qwen25_vl_7b()),
          vision_sizes(name), sizes_of<text::ClipTextModel, text::ClipConfig>(name), sizes_of<vae::AutoencoderKL, vae::KlConfig>(name)};
}

constexpr UsualDrawing kDrawn{.num_inference_steps = 50, .cfg_scale = 3.5};
constexpr std::string_view kT2i = "Kandinsky 5 T2I Lite", kI2i = "Kandinsky 5 I2I Lite";

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kQwenPrefixes, kQwen2Mark), find_vision_tower(files, kQwenPrefixes),
          find_clip(files, kClipPrefixes), find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "kandinsky5",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || only_encode(files); },
    .open = open_as<Kandinsky5Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), processor_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"kandinsky-5.0-t2i-lite-sft", [] { return named_sizes("kandinsky-5.0-t2i-lite-sft"); }, kT2i,
                  "kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers", kDrawn},
                 {"kandinsky-5.0-t2i-lite-pretrain", [] { return named_sizes("kandinsky-5.0-t2i-lite-pretrain"); }, kT2i,
                  "kandinskylab/Kandinsky-5.0-T2I-Lite-pretrain-Diffusers", kDrawn},
                 {"kandinsky-5.0-i2i-lite-sft", [] { return seeing_sizes("kandinsky-5.0-i2i-lite-sft"); }, kI2i,
                  "kandinskylab/Kandinsky-5.0-I2I-Lite-sft-Diffusers", kDrawn},
                 {"kandinsky-5.0-i2i-lite-pretrain", [] { return seeing_sizes("kandinsky-5.0-i2i-lite-pretrain"); }, kI2i,
                  "kandinskylab/Kandinsky-5.0-I2I-Lite-pretrain-Diffusers", kDrawn}},
};

}  // namespace burnish::models::kandinsky5
