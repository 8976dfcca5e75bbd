#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/flux3/keys.h"
#include "models/families/flux3/model.h"
#include "models/parts/find_components.h"
#include "models/vae/patch_autoencoder.h"

namespace burnish::models::flux3 {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3vl_4b"});
/// The modulation of texts, in diffusers' files and in original ones, which all of FLUX.3 has.
constexpr const char *kMark = "early_stream_modulations.txt.linear.weight", *kOriginalMark = "early_stream_modulations.txt.lin.weight";

Source find_dit(const ModelFiles& files) {
  return find_transformer(files, kMark, "Flux3Transformer2DModel", {kOriginalMark, original_keys, {"repa_projectors."}});
}

/// Tells whether these are the files of a stage that only encodes, which may come without the transformer. Either encoder may be another
/// family's, both together are not.
bool only_encode(const ModelFiles& files) { return find_patch_autoencoder(files).entry && find_qwen3_vl(files, kTextPrefixes).entry; }

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  auto transformer =
      fmt::format("FLUX.3 klein{} transformer ({} blocks of a stream and {} joint ones, width {}, {} names)",
                  config.is_flow_map ? "" : " base", config.num_early_blocks, config.num_joint_blocks, config.width(), dit.names());
  return words_of({{dit, transformer},
                   {find_qwen3_vl(one, kTextPrefixes).entry ? text : Source{}, "Qwen3-VL text encoder"},
                   {vae, "KL autoencoder of patches"}});
}

std::vector<ModelEntry> published(std::string_view name, bool is_flow_map) {
  return {sizes_of<Transformer>(name, Config{.is_flow_map = is_flow_map}), sizes_of<text::QwenEncoder>(name, text::qwen3_vl_4b()),
          sizes_of<vae::PatchAutoencoder, vae::PatchConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen3Mark), find_patch_autoencoder(files)};
}

extern const Family kFamily{
    .name = "flux3",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || only_encode(files); },
    .open = open_as<Flux3Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"flux3-klein-base",
                  [] { return published("flux3-klein-base", false); },
                  "FLUX.3 klein base",
                  "black-forest-labs/flux-3-image-klein-base",
                  {.num_inference_steps = 50, .cfg_scale = 4}},
                 {"flux3-klein",
                  [] { return published("flux3-klein", true); },
                  "FLUX.3 klein",
                  "black-forest-labs/flux-3-image-klein",
                  {.num_inference_steps = 16}}},
};

}  // namespace burnish::models::flux3
