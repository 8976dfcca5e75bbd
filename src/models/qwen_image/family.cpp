#include "models/family.h"

#include <fmt/core.h>

#include "base/text.h"
#include "io/model_values.h"
#include "models/qwen_image/model.h"
#include "models/shared_components.h"

namespace burnish::models::qwen_image {

namespace {

/// Prefixes under which single files keep the transformer and the text encoder: none, or those of ComfyUI's checkpoints.
const std::vector<std::string> kTransformerPrefixes{"", "model.diffusion_model.", "diffusion_model."};
const std::vector<std::string> kTextPrefixes{"", "text_encoders.qwen25_7b.transformer.", "text_encoders.qwen25_7b."};
/// The modulation of captions: of its kin, Qwen-Image alone makes it of the time alone under this name.
constexpr const char* kMark = "transformer_blocks.0.txt_mod.1.weight";
/// Biases of queries: Qwen2.5.
constexpr const char* kTextMark = "q_proj.bias";

Source find_transformer(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, kTransformerPrefixes, kMark)) return {&entry, tensors, {}};
    bool config_only = !entry.tensors && io::class_name(entry.config) == "QwenImageTransformer2DModel";
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
    parts.push_back(fmt::format("Qwen-Image transformer ({} layers, width {})", config.num_layers, config.width()));
  }
  if (sources.text_encoder.entry) parts.push_back("Qwen2.5 text encoder");
  if (sources.vae.entry) parts.push_back("causal autoencoder");
  return join(parts, " + ");
}

std::vector<ModelEntry> published() {
  auto options = at::TensorOptions().device(at::kMeta);
  Transformer dit({}, options);
  text::QwenEncoder text(published_text_config(), options);
  vae::CausalAutoencoder vae({}, options);
  constexpr const char* kName = "qwen-image";
  return {sizes_of(kName, dit), sizes_of(kName, text), sizes_of(kName, vae)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_transformer(files), find_qwen(files, kTextPrefixes, kTextMark), find_causal_autoencoder(files)};
}

extern const Family kFamily{
    .name = "qwen_image",
    // A stage that only encodes may come without the transformer; its text encoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_transformer(files).entry || find_qwen(files, kTextPrefixes, kTextMark).entry; },
    .open = [](const ModelFiles& files, const ModelOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<QwenImageModel>(files, options);
    },
    .describe = describe_entry,
    .options = {prompt_length_option()},
    .variants = {{"qwen-image", published}},
};

}  // namespace burnish::models::qwen_image
