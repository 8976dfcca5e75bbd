#include "models/family.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "io/model_values.h"
#include "models/flux2/keys.h"
#include "models/flux2/model.h"
#include "models/shared_components.h"

namespace burnish::models::flux2 {

namespace {

/// Prefixes under which single files keep the transformer and the text encoder: none, or those of ComfyUI's checkpoints.
const std::vector<std::string> kTransformerPrefixes{"", "model.diffusion_model.", "diffusion_model."};
const std::vector<std::string> kTextPrefixes{"", "text_encoders.qwen3_4b.transformer.", "text_encoders.qwen3_4b.",
                                             "text_encoders.qwen3_8b.transformer.", "text_encoders.qwen3_8b."};
/// The modulation that all single blocks share, in diffusers' files and in original ones: of its kin, FLUX.2 alone has one.
constexpr const char *kMark = "single_stream_modulation.linear.weight", *kOriginalMark = "single_stream_modulation.lin.weight";
/// Norms of queries: Qwen3.
constexpr const char* kTextMark = "q_norm.weight";

Source find_transformer(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, kTransformerPrefixes, kMark)) return {&entry, tensors, {}};
    if (auto tensors = find_below(entry, kTransformerPrefixes, kOriginalMark)) return {&entry, tensors, original_keys()};
    bool config_only = !entry.tensors && io::class_name(entry.config) == "Flux2Transformer2DModel";
    if (config_only) return {&entry, std::nullopt, {}};
  }
  return {};
}

/// Whether these are the files of a stage that only encodes, which may come without the transformer. The text encoder may be another
/// family's, the autoencoder is not.
bool only_encode(const ModelFiles& files) {
  auto is_encoder = [](const ModelEntry& entry) {
    const ModelFiles one{{entry}, {}};
    return find_patch_autoencoder(one).entry || find_qwen(one, kTextPrefixes, kTextMark).entry;
  };
  return find_patch_autoencoder(files).entry && std::ranges::all_of(files.entries, is_encoder);
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  auto sources = find_sources(one);
  std::vector<std::string> parts;
  if (sources.dit.tensors) {
    auto config = detect(entry.config.is_null() ? nullptr : &entry.config, sources.dit.shapes());
    bool original = !find_below(entry, kTransformerPrefixes, kMark);
    parts.push_back(fmt::format("FLUX.2 klein transformer ({} double and {} single blocks, width {}, {} names)", config.num_double_blocks,
                                config.num_single_blocks, config.width(), original ? "original" : "diffusers"));
  }
  if (sources.text_encoder.entry) parts.push_back("Qwen3 text encoder");
  if (sources.vae.entry) parts.push_back("KL autoencoder of patches");
  return join(parts, " + ");
}

std::vector<ModelEntry> published(std::string_view name, const Config& config, const text::QwenConfig& text_config) {
  auto options = at::TensorOptions().device(at::kMeta);
  Transformer dit(config, options);
  text::QwenEncoder text(text_config, options);
  vae::PatchAutoencoder vae({}, options);
  return {sizes_of(name, dit), sizes_of(name, text), sizes_of(name, vae)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_transformer(files), find_qwen(files, kTextPrefixes, kTextMark), find_patch_autoencoder(files)};
}

extern const Family kFamily{
    .name = "flux2",
    .recognises = [](const ModelFiles& files) { return find_transformer(files).entry || only_encode(files); },
    .open = [](const ModelFiles& files, const ModelOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<Flux2Model>(files, options);
    },
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"flux2-klein-4b", [] { return published("flux2-klein-4b", {}, {}); }},
                 {"flux2-klein-9b", [] { return published("flux2-klein-9b", klein_9b(), {.width = 4096, .hidden = 12288}); }}},
};

}  // namespace burnish::models::flux2
