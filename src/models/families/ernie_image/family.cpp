#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/ernie_image/model.h"
#include "models/parts/find_components.h"
#include "models/vae/patch_autoencoder.h"

namespace burnish::models::ernie_image {

namespace {

const auto kTextPrefixes = text_prefixes({"ministral3_3b"});
/// Ministral-3-3B has 26 layers; FLUX.2 dev reads texts behind the 30th of a larger one.
constexpr Depth kTextDepth{.most = 29};
/// The MLP's last layer, which has this name in no other family. ComfyUI's files have the names of diffusers' too.
constexpr const char* kMark = "layers.0.mlp.linear_fc2.weight";

Source find_dit(const ModelFiles& files) { return find_transformer(files, {kMark}, "ErnieImageTransformer2DModel"); }

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, vae] = find_sources(one);
  if (!dit.tensors && !text.tensors) return "";  // an autoencoder alone is FLUX.2's to describe
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  auto transformer = fmt::format("ERNIE-Image transformer ({} layers, width {})", config.num_layers, config.width);
  return words_of({{dit, transformer}, {text, "Mistral text encoder"}, {vae, "KL autoencoder of patches"}});
}

std::vector<ModelEntry> published(std::string_view name) {
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::ministral3_3b()),
          sizes_of<vae::PatchAutoencoder, vae::PatchConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_mistral(files, kTextPrefixes, kTextDepth), find_patch_autoencoder(files)};
}

extern const Family kFamily{
    .name = "ernie_image",
    // A stage that only encodes may come without the transformer; its text encoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_mistral(files, kTextPrefixes, kTextDepth).entry; },
    .open = open_as<ErnieImageModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .variants = {{"ernie-image",
                  [] { return published("ernie-image"); },
                  "ERNIE-Image",
                  "baidu/ERNIE-Image",
                  {.num_inference_steps = 50, .cfg_scale = 4}},
                 {"ernie-image-turbo",
                  [] { return published("ernie-image-turbo"); },
                  "ERNIE-Image",
                  "baidu/ERNIE-Image-Turbo",
                  {.num_inference_steps = 8}}},
};

}  // namespace burnish::models::ernie_image
