#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/moss_image/model.h"
#include "models/parts/find_components.h"
#include "models/vae/patch_autoencoder.h"

namespace burnish::models::moss_image {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen35_9b"});
/// The modulation that all blocks share, which has this name in no other family. ComfyUI's files have the makers' names too.
constexpr const char* kMark = "shared_block_modulation.weight";

/// The frequencies of places stand in files and are computed.
Source find_dit(const ModelFiles& files) {
  auto found = find_transformer(files, {kMark}, "MOSSImageTransformer");
  if (found.tensors) found.tensors = found.tensors->without({"rope."});
  return found;
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, vae] = find_sources(one);
  if (!dit.tensors && !text.tensors) return "";  // an autoencoder alone is FLUX.2's to describe
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  return words_of({{dit, fmt::format("MOSS-Image transformer ({} layers, width {})", config.num_layers, config.width)},
                   {text, "Qwen3.5 text encoder"},
                   {image, "vision tower"},
                   {vae, "KL autoencoder of patches"}});
}

std::vector<ModelEntry> published(std::string_view name) {
  auto tower_config = text::qwen3_vl_8b_vision();
  tower_config.deepstack.clear();
  auto tower = sizes_of<text::Qwen3VlVision>(name, tower_config);
  tower.tensors = tower.tensors->renamed([](const std::string& path) { return "visual." + path; });
  vae::PatchConfig vae;
  vae.kl.decoder_channels = {96, 192, 384, 384};
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen35_9b()), tower,
          sizes_of<vae::PatchAutoencoder>(name, vae)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen35Mark), find_vision_tower(files, kTextPrefixes),
          find_patch_autoencoder(files)};
}

extern const Family kFamily{
    .name = "moss_image",
    // A stage that only encodes may come without the transformer; its text encoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_qwen(files, kTextPrefixes, kQwen35Mark).entry; },
    .open = open_as<MossImageModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), processor_option(), skipped_layer_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"moss-image",
                  [] { return published("moss-image"); },
                  "MOSS-Image",
                  "OpenMOSS-Team/MOSS-Image-Base",
                  {.num_inference_steps = 50, .cfg_scale = 3}},
                 {"moss-image-sft",
                  [] { return published("moss-image-sft"); },
                  "MOSS-Image",
                  "OpenMOSS-Team/MOSS-Image-SFT",
                  {.num_inference_steps = 50, .cfg_scale = 3}}},
};

}  // namespace burnish::models::moss_image
