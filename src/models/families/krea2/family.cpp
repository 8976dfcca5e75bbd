#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/krea2/keys.h"
#include "models/families/krea2/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::krea2 {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3vl_4b"});
/// The weights of layers in the fusion of texts, in diffusers' files and in original ones.
constexpr const char *kMark = "text_fusion.projector.weight", *kOriginalMark = "txtfusion.projector.weight";

Source find_dit(const ModelFiles& files) {
  return find_transformer(files, kMark, "Krea2Transformer2DModel", {kOriginalMark, original_keys, {"last.down.", "last.up."}});
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  auto transformer = fmt::format("Krea 2 transformer ({} layers, width {}, {} names)", config.num_layers, config.width(), dit.names());
  return words_of({{dit, transformer},
                   {find_qwen3_vl(one, kTextPrefixes).entry ? text : Source{}, "Qwen3-VL text encoder"},
                   {find_qwen3_vl(one, kTextPrefixes).entry ? image : Source{}, "vision tower"},
                   {vae, "causal autoencoder"}});
}

std::vector<ModelEntry> published(std::string_view name) {
  auto tower = sizes_of<text::Qwen3VlVision, text::Qwen3VlVisionConfig>(name);
  tower.tensors = tower.tensors->renamed([](const std::string& path) { return "visual." + path; });
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen3_vl_4b()), tower,
          sizes_of<vae::CausalAutoencoder, vae::CausalConfig>(name)};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen3Mark), find_vision_tower(files, kTextPrefixes),
          find_causal_autoencoder(files)};
}

extern const Family kFamily{
    .name = "krea2",
    // A stage that only encodes may come without the transformer; its text encoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_qwen3_vl(files, kTextPrefixes).entry; },
    .open = open_as<Krea2Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(),
                tile_option(),
                distilled_option(),
                {.name = "reference_form",
                 .help =
                     "how Krea 2 sees reference pictures: frames (each behind the target, without noise: ai-toolkit, ComfyUI) or overlaid "
                     "(one of the target's size, in its place: SimpleTuner)",
                 .otherwise = std::string("frames"),
                 .elsewhere = "it is of Krea 2, leave it out",
                 .choices = forms(),
                 .about = Option::About::references},
                reference_pixels_option(),
                processor_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"krea2-raw",
                  [] { return published("krea2-raw"); },
                  "Krea 2 Raw",
                  "krea/Krea-2-Raw",
                  {.num_inference_steps = 52, .cfg_scale = 4.5}},
                 {kTurbo, [] { return published(kTurbo); }, "Krea 2 Turbo", "krea/Krea-2-Turbo", {.num_inference_steps = 8}}},
};

}  // namespace burnish::models::krea2
