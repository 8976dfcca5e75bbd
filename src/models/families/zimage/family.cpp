#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/zimage/keys.h"
#include "models/families/zimage/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::zimage {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3_4b"});
/// Tokens that fill up pictures: of its kin, Z-Image alone has them.
constexpr const char* kMark = "x_pad_token";

Source find_dit(const ModelFiles& files) {
  auto found = find_transformer(files, {kMark}, "ZImageTransformer2DModel");
  if (!found.tensors) return found;
  found.is_original = !found.tensors->contains("all_x_embedder.2-1.weight");
  if (found.is_original) found.keys = original_keys();
  found.tensors = found.tensors->without({"norm_final."});  // a norm that no code runs
  return found;
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  auto transformer = fmt::format("Z-Image transformer ({} layers, {} in each refiner, width {}, {} names)", config.num_layers,
                                 config.num_refiner_layers, config.width, dit.names());
  return words_of({{dit, transformer}, {text, "Qwen3 text encoder"}, {vae, "KL autoencoder"}});
}

std::vector<ModelEntry> published(std::string_view name) {
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder, text::QwenConfig>(name),
          sizes_of<vae::AutoencoderKL, vae::KlConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen3Mark), find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "zimage",
    // A stage that only encodes may come without the transformer; its text encoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_qwen(files, kTextPrefixes, kQwen3Mark).entry; },
    .open = open_as<ZImageModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .variants =
        {{"z-image", [] { return published("z-image"); }, "Z-Image", "Tongyi-MAI/Z-Image", {.num_inference_steps = 50, .cfg_scale = 5}},
         {"z-image-turbo", [] { return published("z-image-turbo"); }, "Z-Image", "Tongyi-MAI/Z-Image-Turbo", {.num_inference_steps = 8}}},
};

}  // namespace burnish::models::zimage
