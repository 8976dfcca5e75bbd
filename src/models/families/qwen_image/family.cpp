#include "models/model/family.h"

#include <fmt/core.h>

#include "base/limits.h"
#include "models/families/qwen_image/model.h"
#include "models/parts/find_components.h"
#include "models/vae/causal_autoencoder.h"

namespace burnish::models::qwen_image {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen25_7b"});
/// The modulation of captions: of its kin, Qwen-Image alone makes it of the time alone under this name.
constexpr const char* kMark = "transformer_blocks.0.txt_mod.1.weight";

Source find_dit(const ModelFiles& files) {
  auto found = find_transformer(files, {kMark}, "QwenImageTransformer2DModel");
  if (found.tensors) found.tensors = found.tensors->without({kZeroMark});
  return found;
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  return words_of({{dit, fmt::format("Qwen-Image{} transformer ({} layers, width {})", config.has_layers ? "-Layered" : "",
                                     config.num_layers, config.width())},
                   {find_control(one), "Qwen-Image blockwise ControlNet"},
                   {text, "Qwen2.5 text encoder"},
                   {image, "vision tower"},
                   {vae, "causal autoencoder"}});
}

std::vector<ModelEntry> named_sizes(std::string_view name) {
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen25_vl_7b()),
          sizes_of<vae::CausalAutoencoder, vae::CausalConfig>(name)};
}

/// Returns the components of a model that also sees.
std::vector<ModelEntry> edit_sizes(std::string_view name) {
  auto entries = named_sizes(name);
  entries.push_back(vision_sizes(name));
  return entries;
}

/// Returns the components of a model that makes layers.
std::vector<ModelEntry> layered_sizes(std::string_view name) {
  return {sizes_of<Transformer, Config>(name, {.has_layers = true}), sizes_of<text::QwenEncoder>(name, text::qwen25_vl_7b()),
          sizes_of<vae::CausalAutoencoder, vae::CausalConfig>(name, {.pixels = {.channels = 4}})};
}

Columns further_inputs() {
  Columns inputs(std::begin(kExtraInputs), std::end(kExtraInputs));
  inputs.push_back(kLayerCount);
  return inputs;
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen2Mark), find_vision_tower(files, kTextPrefixes),
          find_causal_autoencoder(files)};
}

extern const Family kFamily{
    .name = "qwen_image",
    // A stage that only encodes may come without the transformer; its text encoder is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_qwen(files, kTextPrefixes, kQwen2Mark).entry; },
    .open = open_as<QwenImageModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(),
                tile_option(),
                {.name = "zero_cond_t",
                 .help = "modulate reference pictures by the time 0, as Qwen-Image-Edit-2511 does; on by itself where the transformer's "
                         "config.json says so",
                 .otherwise = false,
                 .elsewhere = "it is of Qwen-Image-Edit-2511, leave it out",
                 .about = Option::About::references},
                {.name = "without_whole",
                 .help = "make the layers of a picture alone, without the whole picture before them, as musubi-tuner's "
                         "remove_first_image_from_target trains Qwen-Image-Layered",
                 .otherwise = false,
                 .elsewhere = "it is of Qwen-Image-Layered, leave it out"},
                {.name = "reference_prompt",
                 .help = "how prompts tell of reference pictures: plain (Qwen-Image-Edit: one without a name), numbered (Edit-2509 and "
                         "2511: 'Picture 1: '), by_count (plain for one, numbered for several), or auto: what model_index.json says, else "
                         "by_count",
                 .otherwise = std::string("auto"),
                 .elsewhere = "its prompts tell nothing of reference pictures, leave it out",
                 .choices = namings(),
                 .about = Option::About::references},
                reference_pixels_option(),
                processor_option()},
    .reference_columns = {kReferenceColumn, kWholeColumn},
    .extra_inputs = further_inputs(),
    .variants = {{"qwen-image",
                  [] { return named_sizes("qwen-image"); },
                  "Qwen-Image",
                  "Qwen/Qwen-Image",
                  {.num_inference_steps = 50, .cfg_scale = 4}},
                 {"qwen-image-edit",
                  [] { return edit_sizes("qwen-image-edit"); },
                  "Qwen-Image-Edit",
                  "Qwen/Qwen-Image-Edit",
                  {.num_inference_steps = 50, .cfg_scale = 4}},
                 {"firered-image-edit-1.0",
                  [] { return edit_sizes("firered-image-edit-1.0"); },
                  "Qwen-Image-Edit",
                  "FireRedTeam/FireRed-Image-Edit-1.0",
                  {.num_inference_steps = 40, .cfg_scale = 4}},
                 {"firered-image-edit-1.1",
                  [] { return edit_sizes("firered-image-edit-1.1"); },
                  "Qwen-Image-Edit",
                  "FireRedTeam/FireRed-Image-Edit-1.1",
                  {.num_inference_steps = 40, .cfg_scale = 4}},
                 {"qwen-image-layered",
                  [] { return layered_sizes("qwen-image-layered"); },
                  "Qwen-Image-Layered",
                  "Qwen/Qwen-Image-Layered",
                  {.num_inference_steps = 50, .cfg_scale = 4}}},
};

}  // namespace burnish::models::qwen_image
