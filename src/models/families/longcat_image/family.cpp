#include "models/model/family.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/families/longcat_image/keys.h"
#include "models/families/longcat_image/model.h"

namespace burnish::models::longcat_image {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen25_7b"});
/// What embeds the time, where nothing else is embedded; in original names blocks with modulations are a mark too, where nothing pooled is
/// embedded.
constexpr const char *kMark = "time_embed.timestep_embedder.linear_1.weight", *kOriginalMark = "double_blocks.0.img_mod.lin.weight",
                     *kPooledMark = "vector_in.in_layer.weight";

Source find_dit(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    auto found = find_transformer({{entry}, {}}, kMark, "LongCatImageTransformer2DModel", {kOriginalMark, original_keys});
    if (!found.entry || (found.is_original && found.tensors->contains(kPooledMark))) continue;
    found.entry = &entry;
    return found;
  }
  return {};
}

/// Tells whether these are the files of a stage that only encodes, which may come without the transformer: this text encoder, whose mark
/// others have too, beside this autoencoder.
bool only_encode(const ModelFiles& files) {
  auto has = [](const ModelFiles& some, bool text) {
    return (text ? find_qwen(some, kTextPrefixes, kQwen2Mark) : find_autoencoder(some)).entry != nullptr;
  };
  auto is_either = [&](const ModelEntry& entry) { return has({{entry}, {}}, true) || has({{entry}, {}}, false); };
  return has(files, true) && has(files, false) && std::ranges::all_of(files.entries, is_either);
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, vae] = find_sources(one);
  if (!dit.tensors) return "";
  auto config = read_named(dit, detect);
  return words_of({{dit, fmt::format("LongCat-Image transformer ({} double and {} single blocks, width {}, {} names)",
                                     config.num_double_blocks, config.num_single_blocks, config.width(), dit.names())},
                   {text, "Qwen2.5 text encoder"},
                   {image, "vision tower"},
                   {vae, "KL autoencoder"}});
}

std::vector<ModelEntry> named_sizes(std::string_view name) {
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen25_vl_7b()),
          sizes_of<vae::AutoencoderKL, vae::KlConfig>(name)};
}

/// Returns the components of a model that also sees.
std::vector<ModelEntry> seeing_sizes(std::string_view name) {
  auto entries = named_sizes(name);
  entries.push_back(vision_sizes(name));
  return entries;
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen2Mark), find_vision_tower(files, kTextPrefixes), find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "longcat_image",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || only_encode(files); },
    .open = open_as<LongCatImageModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), reference_pixels_option(), processor_option()},
    .reference_columns = {kReferenceColumn},
    .variants = {{"longcat-image",
                  [] { return named_sizes("longcat-image"); },
                  "LongCat-Image",
                  "meituan-longcat/LongCat-Image",
                  {.num_inference_steps = 50, .cfg_scale = 4.5}},
                 {"longcat-image-dev",
                  [] { return named_sizes("longcat-image-dev"); },
                  "LongCat-Image",
                  "meituan-longcat/LongCat-Image-Dev",
                  {.num_inference_steps = 50, .cfg_scale = 4.5}},
                 {"longcat-image-edit",
                  [] { return seeing_sizes("longcat-image-edit"); },
                  "LongCat-Image",
                  "meituan-longcat/LongCat-Image-Edit",
                  {.num_inference_steps = 50, .cfg_scale = 4.5}}},
};

}  // namespace burnish::models::longcat_image
