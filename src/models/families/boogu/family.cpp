#include "models/model/family.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/families/boogu/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::boogu {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3vl_8b"});
/// A norm of the attention that pictures have beside that with their text, which no relative has.
constexpr const char* kMark = "double_stream_layers.0.img_self_attn.norm_q.weight";

Source find_dit(const ModelFiles& files) { return find_transformer(files, {kMark}, "BooguImageTransformer2DModel"); }

/// Tells whether these are the files of a stage that only encodes, which may come without the transformer: a Qwen3-VL and a KL
/// autoencoder of latents that are no patches, which no other family has side by side.
bool only_encode(const ModelFiles& files) {
  const auto text = find_qwen3_vl(files, kTextPrefixes), vae = find_autoencoder(files);
  if (!text.entry || !vae.entry || find_patch_autoencoder(files).entry) return false;
  return std::ranges::all_of(files.entries, [&](const ModelEntry& entry) { return &entry == text.entry || &entry == vae.entry; });
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, image, vae] = find_sources(one);
  if (!dit.tensors) return "";
  const auto config = read_named(dit, detect);
  return words_of({{dit, fmt::format("Boogu-Image 0.1 transformer ({} blocks of two streams and {} of one, width {}, {} names)",
                                     config.num_double, config.num_single, config.width, dit.names())},
                   {text, "Qwen3-VL text encoder"},
                   {image, "vision tower"},
                   {vae, "KL autoencoder"}});
}

std::vector<ModelEntry> named_sizes(std::string_view name) {
  auto tower = sizes_of<text::Qwen3VlVision>(name, text::qwen3_vl_8b_vision());
  tower.tensors = tower.tensors->renamed([](const std::string& path) { return "visual." + path; });
  return {sizes_of<Transformer, Config>(name), sizes_of<text::QwenEncoder>(name, text::qwen3_vl_8b()), tower,
          sizes_of<vae::AutoencoderKL, vae::KlConfig>(name)};
}

constexpr UsualDrawing kDrawn{.num_inference_steps = 50, .cfg_scale = 4};
constexpr std::string_view kTitle = "Boogu-Image 0.1";

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_qwen(files, kTextPrefixes, kQwen3Mark), find_vision_tower(files, kTextPrefixes), find_autoencoder(files)};
}

extern const Family kFamily{
    .name = "boogu",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || only_encode(files); },
    .open = open_as<BooguModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), distilled_option(), reference_pixels_option(), processor_option()},
    .reference_columns = {"edit_image"},
    .variants =
        {{"boogu-image-base", [] { return named_sizes("boogu-image-base"); }, kTitle, "Boogu/Boogu-Image-0.1-Base", kDrawn},
         {"boogu-image-edit", [] { return named_sizes("boogu-image-edit"); }, kTitle, "Boogu/Boogu-Image-0.1-Edit", kDrawn},
         {kTurbo, [] { return named_sizes(kTurbo); }, "Boogu-Image 0.1 Turbo", "Boogu/Boogu-Image-0.1-Turbo", {.num_inference_steps = 4}}},
};

}  // namespace burnish::models::boogu
