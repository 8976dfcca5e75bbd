#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/qwen_image_21/keys.h"
#include "models/families/qwen_image_21/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::qwen_image_21 {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3vl_8b"});
/// The norm of texts, which no other family has below this name.
constexpr const char* kMark = "txt_in.text_norm.weight";

Source find_dit(const ModelFiles& files) {
  auto found = find_transformer(files, {kMark}, "QwenImage21Transformer2DModel");
  if (found.tensors) found.keys = comfyui_keys();
  return found;
}

Source find_vae(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    const ModelFiles one{{entry}, {}};
    auto found = find_causal_autoencoder(one);
    if (found.tensors && vae::is_flat_causal(*found.tensors)) return {&entry, found.tensors, found.keys};
  }
  return {};
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, vae] = find_sources(one);
  const auto control = find_control(one);
  if (!dit.tensors && !vae.tensors && !control.entry) return "";  // a text encoder alone is another family's to describe
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  return words_of({{dit, fmt::format("Qwen-Image-2.1 transformer ({} layers, width {})", config.num_layers, config.width())},
                   {control, "Qwen-Image-2.1 ControlNet"},
                   {text, "Qwen3-VL text encoder"},
                   {image, "vision tower"},
                   {vae, "autoencoder of pictures with a fourth channel"}});
}

std::vector<ModelEntry> published(std::string_view name) {
  auto tower = sizes_of<text::Qwen3VlVision, text::Qwen3VlVisionConfig>(name, text::qwen3_vl_8b_vision());
  tower.tensors = tower.tensors->renamed([](const std::string& path) { return "visual." + path; });
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen3_vl_8b()), tower,
          sizes_of<vae::CausalAutoencoder>(name, vae::flat_causal_config())};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen3Mark), find_vision_tower(files, kTextPrefixes), find_vae(files)};
}

extern const Family kFamily{
    .name = "qwen_image_21",
    // A stage that only encodes may come without the transformer; its autoencoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_vae(files).entry; },
    .open = open_as<QwenImage21Model>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), reference_pixels_option(), processor_option()},
    .reference_columns = {kReferenceColumn},
    .extra_inputs = {std::begin(kExtraInputs), std::end(kExtraInputs)},
    .variants = {{"qwen-image-2.1",
                  [] { return published("qwen-image-2.1"); },
                  "Qwen-Image-2.1",
                  "Qwen/Qwen-Image-2.1",
                  {.num_inference_steps = 40}}},
};

}  // namespace burnish::models::qwen_image_21
