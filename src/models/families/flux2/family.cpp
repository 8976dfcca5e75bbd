#include "models/model/family.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/families/flux2/keys.h"
#include "models/families/flux2/model.h"
#include "models/parts/find_components.h"
#include "models/vae/patch_autoencoder.h"

namespace burnish::models::flux2 {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3_4b", "qwen3_8b"});
const auto kMistralPrefixes = text_prefixes({"mistral3_24b"});
/// Layers of Mistral-Small that are run: more than its smaller kin have.
constexpr int64_t kMistralLayers = 30;
/// The modulation that all single blocks share, in diffusers' files and in original ones: of its kin, FLUX.2 alone has one.
constexpr const char *kMark = "single_stream_modulation.linear.weight", *kOriginalMark = "single_stream_modulation.lin.weight";

Source find_dit(const ModelFiles& files) {
  return find_transformer(files, kMark, "Flux2Transformer2DModel", {kOriginalMark, original_keys});
}

Source find_text_encoder(const ModelFiles& files) {
  auto found = find_qwen(files, kTextPrefixes, kQwen3Mark);
  return found.entry ? found : find_mistral(files, kMistralPrefixes, {.least = kMistralLayers});
}

/// Tells whether these are the files of a stage that only encodes, which may come without the transformer. The text encoder may be another
/// family's, the autoencoder is not.
bool only_encode(const ModelFiles& files) {
  auto is_encoder = [](const ModelEntry& entry) {
    const ModelFiles one{{entry}, {}};
    return find_patch_autoencoder(one).entry || find_text_encoder(one).entry;
  };
  return find_patch_autoencoder(files).entry && std::ranges::all_of(files.entries, is_encoder);
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  auto transformer =
      fmt::format("FLUX.2 {} transformer ({} double and {} single blocks, width {}, {} names)", config.guidance_embeds ? "dev" : "klein",
                  config.num_double_blocks, config.num_single_blocks, config.width(), dit.names());
  return words_of({{dit, transformer},
                   {text, text.tensors && is_mistral(text) ? "Mistral text encoder" : "Qwen3 text encoder"},
                   {vae, "KL autoencoder of patches"}});
}

std::vector<ModelEntry> published(std::string_view name, const Config& config, const text::QwenConfig& text_config) {
  return {sizes_of<Transformer>(name, config), sizes_of<text::QwenEncoder>(name, text_config),
          sizes_of<vae::PatchAutoencoder, vae::PatchConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) { return {find_dit(files), find_text_encoder(files), find_patch_autoencoder(files)}; }

bool is_mistral(const Source& text_encoder) {
  return text_encoder.tensors && !text_encoder.tensors->contains("layers.0.self_attn.q_norm.weight");
}

extern const Family kFamily{
    .name = "flux2",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || only_encode(files); },
    .open = open_as<Flux2Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(), embedded_guidance_option(4.0), system_text_option(), tile_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"flux2-klein-4b",
                  [] { return published("flux2-klein-4b", {}, {}); },
                  "FLUX.2-klein",
                  "black-forest-labs/FLUX.2-klein-base-4B",
                  {.num_inference_steps = 50, .cfg_scale = 4}},
                 {"flux2-klein-9b",
                  [] { return published("flux2-klein-9b", klein_9b(), {.width = 4096, .hidden = 12288}); },
                  "FLUX.2-klein",
                  "black-forest-labs/FLUX.2-klein-base-9B",
                  {.num_inference_steps = 50, .cfg_scale = 4}},
                 {"flux2-dev",
                  [] { return published("flux2-dev", dev(), text::mistral_small_24b()); },
                  "FLUX.2-dev",
                  "black-forest-labs/FLUX.2-dev",
                  {.num_inference_steps = 50}}},
};

}  // namespace burnish::models::flux2
