#include "models/model/family.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/families/fibo2/model.h"
#include "models/parts/find_components.h"
#include "models/vae/patch_autoencoder.h"

namespace burnish::models::fibo2 {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3vl_4b"});
/// What the gist of a text begins with, which no other family has.
constexpr const char* kMark = "perceiver.latent_queries";

Source find_dit(const ModelFiles& files) { return find_transformer(files, {kMark}, "BriaFibo2Transformer2DModel"); }

/// Tells whether these are the files of a stage that only encodes, which may come without the transformer. The text encoder is another
/// family's too, and so is the autoencoder; both together are this one's, and Ideogram 4's, which stands before.
bool only_encode(const ModelFiles& files) {
  const auto vae = find_patch_autoencoder(files);
  auto is_encoder = [](const ModelEntry& entry) {
    const ModelFiles one{{entry}, {}};
    return find_patch_autoencoder(one).entry || find_qwen3_vl(one, kTextPrefixes).entry;
  };
  return vae.entry && find_qwen3_vl(files, kTextPrefixes).entry && std::ranges::all_of(files.entries, is_encoder);
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, vae] = find_sources(one);
  if (!dit.tensors) return "";  // the other components are further families' to describe
  const auto config = read_named(dit, detect);
  return words_of({{dit, fmt::format("FIBO 2 transformer ({} layers, width {})", config.blocks.num_layers, config.blocks.width)},
                   {text, "Qwen3-VL text encoder"},
                   {image, "vision tower"},
                   {vae, "KL autoencoder of patches"}});
}

std::vector<ModelEntry> published(std::string_view name) {
  auto tower = sizes_of<text::Qwen3VlVision, text::Qwen3VlVisionConfig>(name);
  tower.tensors = tower.tensors->renamed([](const std::string& path) { return "visual." + path; });
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen3_vl_4b()), tower,
          sizes_of<vae::PatchAutoencoder, vae::PatchConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen3Mark), find_vision_tower(files, kTextPrefixes),
          find_patch_autoencoder(files)};
}

extern const Family kFamily{
    .name = "fibo2",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || only_encode(files); },
    .open = open_as<Fibo2Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), processor_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"fibo-2.0-dev",
                  [] { return published("fibo-2.0-dev"); },
                  "FIBO 2",
                  "briaai/Fibo-2.0-dev",
                  {.num_inference_steps = 30, .cfg_scale = 5}},
                 {"fibo-2.0-edit-turbo",
                  [] { return published("fibo-2.0-edit-turbo"); },
                  "FIBO 2",
                  "briaai/Fibo-2.0-edit-turbo",
                  {.num_inference_steps = 8}}},
};

}  // namespace burnish::models::fibo2
