#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/longcat_video/keys.h"
#include "models/families/longcat_video/model.h"
#include "models/parts/umt5.h"

namespace burnish::models::longcat_video {

namespace {

const auto kTextPrefixes = text_prefixes({"umt5xxl"});
/// The norm before attention to a text, and in the names of ComfyUI-WanVideoWrapper what modulates the last layer.
constexpr const char *kMark = "blocks.0.pre_crs_attn_norm.weight", *kWrapperMark = "head.modulation.1.weight";
/// The class that the makers' config.json names.
constexpr const char* kClass = "LongCatVideoTransformer3DModel";

Source find_dit(const ModelFiles& files) {
  auto found = find_transformer(files, {kMark, kWrapperMark}, kClass);
  if (!found.tensors) return found;
  const bool is_wrapped = found.tensors->contains(kWrapperMark);
  found.keys = is_wrapped ? wrapper_keys() : fused_keys();
  return found;
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, text, vae] = find_sources(one);
  if (!dit.tensors) return "";
  const auto config = read_named(dit, detect);
  return words_of({{dit, fmt::format("LongCat-Video transformer ({} layers, width {}, {} names)", config.num_layers, config.width,
                                     dit.tensors->contains(kWrapperMark) ? "ComfyUI-WanVideoWrapper's" : "its makers'")},
                   {text, "umT5 encoder"},
                   {vae, "causal autoencoder"}});
}

std::vector<ModelEntry> named_sizes(std::string_view name) {
  return {sizes_of<Transformer, Config>(name), sizes_of<text::T5Encoder>(name, umt5_xxl()),
          sizes_of<vae::CausalAutoencoder>(name, vae::CausalConfig{.in_time = true, .halves_frames = {false, true, true}})};
}

}  // namespace

Sources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_t5(files, kTextPrefixes), find_causal_autoencoder(files, vae::CausalFor::clips)};
}

extern const Family kFamily{
    .name = "longcat_video",
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry != nullptr; },
    .open = open_as<LongCatVideoModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), first_share_option(), given_frames_option()},
    .reference_columns = {kFirstFrameColumn},
    .variants = {{"longcat-video",
                  [] { return named_sizes("longcat-video"); },
                  "LongCat-Video",
                  "meituan-longcat/LongCat-Video",
                  {.side = 640, .num_inference_steps = 50, .cfg_scale = 4}}},
    .not_supported = {{"LongCat-Video-Avatar", "its blocks hear speech, through attention of their own"}},
};

}  // namespace burnish::models::longcat_video
