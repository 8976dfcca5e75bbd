#include "models/family.h"

#include <fmt/core.h>

#include "base/text.h"
#include "io/model_values.h"
#include "models/shared_components.h"
#include "models/zimage/keys.h"
#include "models/zimage/model.h"

namespace burnish::models::zimage {

namespace {

/// Prefixes under which single files keep the transformer and the text encoder: none, or those of ComfyUI's checkpoints.
const std::vector<std::string> kTransformerPrefixes{"", "model.diffusion_model.", "diffusion_model."};
const std::vector<std::string> kTextPrefixes{"", "text_encoders.qwen3_4b.transformer.", "text_encoders.qwen3_4b."};
/// Tokens that fill up pictures: of its kin, Z-Image alone has them.
constexpr const char* kMark = "x_pad_token";
/// Norms of queries: Qwen3.
constexpr const char* kTextMark = "q_norm.weight";

Source find_transformer(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, kTransformerPrefixes, kMark)) {
      auto keys = tensors->contains("all_x_embedder.2-1.weight") ? io::KeyMap() : original_keys();
      return {&entry, tensors->without({"norm_final."}), keys};  // a norm that no code runs
    }
    bool config_only = !entry.tensors && io::class_name(entry.config) == "ZImageTransformer2DModel";
    if (config_only) return {&entry, std::nullopt, {}};
  }
  return {};
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  auto sources = find_sources(one);
  std::vector<std::string> parts;
  if (sources.dit.tensors) {
    auto config = detect(entry.config.is_null() ? nullptr : &entry.config, sources.dit.shapes());
    bool diffusers = sources.dit.tensors->contains("all_x_embedder.2-1.weight");
    parts.push_back(fmt::format("Z-Image transformer ({} layers, {} in each refiner, width {}, {} names)", config.num_layers,
                                config.num_refiner_layers, config.width, diffusers ? "diffusers" : "original"));
  }
  if (sources.text_encoder.entry) parts.push_back("Qwen3 text encoder");
  if (sources.vae.entry) parts.push_back("KL autoencoder");
  return join(parts, " + ");
}

std::vector<ModelEntry> published(std::string_view name) {
  auto options = at::TensorOptions().device(at::kMeta);
  Transformer dit({}, options);
  text::QwenEncoder text({}, options);
  vae::AutoencoderKL vae({}, options);
  return {sizes_of(name, dit), sizes_of(name, text), sizes_of(name, vae)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_transformer(files), find_qwen(files, kTextPrefixes, kTextMark), find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "zimage",
    // A stage that only encodes may come without the transformer; its text encoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_transformer(files).entry || find_qwen(files, kTextPrefixes, kTextMark).entry; },
    .open = [](const ModelFiles& files, const ModelOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<ZImageModel>(files, options);
    },
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .variants = {{"z-image", [] { return published("z-image"); }}, {"z-image-turbo", [] { return published("z-image-turbo"); }}},
};

}  // namespace burnish::models::zimage
