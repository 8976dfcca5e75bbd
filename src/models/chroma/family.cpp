#include "models/family.h"

#include <fmt/core.h>

#include "base/text.h"
#include "io/model_values.h"
#include "models/chroma/keys.h"
#include "models/chroma/model.h"
#include "models/shared_components.h"

namespace burnish::models::chroma {

namespace {

/// Prefixes under which single files keep the transformer and the text encoder: none, or those of ComfyUI's checkpoints.
const std::vector<std::string> kTransformerPrefixes{"", "model.diffusion_model.", "diffusion_model."};
const std::vector<std::string> kTextPrefixes{"", "text_encoders.t5xxl.transformer.", "text_encoders.t5xxl."};
/// What makes all modulation: of its kin, Chroma alone has it.
constexpr const char* kMark = "distilled_guidance_layer.in_proj.weight";

bool is_original(const io::TensorSource& tensors) { return tensors.contains("img_in.weight"); }

Source find_transformer(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, kTransformerPrefixes, kMark))
      return {&entry, tensors, is_original(*tensors) ? original_keys() : io::KeyMap()};
    bool config_only = !entry.tensors && io::class_name(entry.config) == "ChromaTransformer2DModel";
    if (config_only) return {&entry, std::nullopt, {}};
  }
  return {};
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  auto sources = find_sources(one);
  if (!sources.dit.tensors) return "";
  auto config = detect(entry.config.is_null() ? nullptr : &entry.config, sources.dit.shapes());
  std::vector<std::string> parts{fmt::format("Chroma transformer ({} double and {} single blocks, width {}, {} names)",
                                             config.num_double_blocks, config.num_single_blocks, config.width(),
                                             is_original(*sources.dit.tensors) ? "original" : "diffusers")};
  if (sources.text_encoder.entry) parts.push_back("T5 encoder");
  if (sources.vae.entry) parts.push_back("KL autoencoder");
  return join(parts, " + ");
}

std::vector<ModelEntry> published() {
  auto options = at::TensorOptions().device(at::kMeta);
  Transformer dit({}, options);
  text::T5Encoder t5({}, options);
  vae::AutoencoderKL vae({}, options);
  return {sizes_of("chroma", dit), sizes_of("chroma", t5), sizes_of("chroma", vae)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) { return {find_transformer(files), find_t5(files, kTextPrefixes), find_autoencoder(files)}; }

extern const Family kFamily{
    .name = "chroma",
    .recognises = [](const ModelFiles& files) { return find_transformer(files).entry != nullptr; },
    .open = [](const ModelFiles& files, const ModelOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<ChromaModel>(files, options);
    },
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .variants = {{"chroma", published}},
};

}  // namespace burnish::models::chroma
