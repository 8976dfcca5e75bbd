#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/flux/keys.h"
#include "models/families/flux/model.h"
#include "models/parts/clip_towers.h"
#include "models/parts/find_components.h"

namespace burnish::models::flux {

namespace {

const auto kClipPrefixes = text_prefixes({"clip_l"}), kT5Prefixes = text_prefixes({"t5xxl"});
constexpr const char *kDoubleMark = "transformer_blocks.0.norm1_context.linear.weight",
                     *kSingleMark = "single_transformer_blocks.0.norm.linear.weight",
                     *kOriginalDoubleMark = "double_blocks.0.img_mod.lin.weight",
                     *kOriginalSingleMark = "single_blocks.0.modulation.lin.weight";

Source find_dit(const ModelFiles& files) {
  // The blocks of a ControlNet have the same names.
  auto found = find_transformer(files, {kDoubleMark, kSingleMark, kOriginalDoubleMark, kOriginalSingleMark}, "FluxTransformer2DModel",
                                "controlnet_x_embedder.weight");
  if (!found.tensors || found.tensors->contains(kDoubleMark) || found.tensors->contains(kSingleMark)) return found;
  return {found.entry, found.tensors->without({kConnectorPrefix}), bfl_keys(), /*is_original=*/true};
}

std::string describe(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, clip, t5, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  Described found{{dit, fmt::format("{} transformer ({} double and {} single blocks, width {}, {} names)",
                                    config.guidance_embeds ? "FLUX.1-dev" : "FLUX.1-schnell", config.num_double_blocks,
                                    config.num_single_blocks, config.width(), dit.names())}};
  for (auto& module : side_modules_in(one)) found.push_back(std::move(module));
  found.insert(found.end(),
               {{find_connector(one), "Step1X-Edit connector"}, {clip, "CLIP text encoder"}, {t5, "T5 encoder"}, {vae, "KL autoencoder"}});
  return words_of(found);
}

std::vector<ModelEntry> named_sizes(std::string_view name, const Config& config) {
  return {sizes_of<Transformer>(name, config), sizes_of<text::ClipTextModel, text::ClipConfig>(name),
          sizes_of<text::T5Encoder, text::T5Config>(name), sizes_of<vae::AutoencoderKL, vae::KlConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_clip(files, kClipPrefixes), find_t5(files, kT5Prefixes), find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "flux",
    // A stage that only encodes may come without the transformer; the pair of text encoders is then the mark.
    .recognises =
        [](const ModelFiles& files) {
          return find_dit(files).entry || (find_clip(files, kClipPrefixes).entry && find_t5(files, kT5Prefixes).entry);
        },
    .open = open_as<FluxModel>,
    .describe = describe,
    .options = {prompt_length_option(), embedded_guidance_option(3.5), tile_option()},
    .reference_columns = {kReferenceColumn, kStep1xColumn},
    .extra_inputs = {std::begin(kExtraInputs), std::end(kExtraInputs)},
    .variants = {{"flux-dev", [] { return named_sizes("flux-dev", {}); }, "FLUX.1-dev", "black-forest-labs/FLUX.1-dev"},
                 {"flux-schnell",
                  [] { return named_sizes("flux-schnell", {.guidance_embeds = false}); },
                  "FLUX.1-schnell",
                  "black-forest-labs/FLUX.1-schnell",
                  {.num_inference_steps = 4}}},
};

}  // namespace burnish::models::flux
