#include "models/families/ltx2/autoencoder_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "models/families/ltx2/halves.h"

namespace burnish::models::ltx2 {

namespace {

/// A tensor of each half, by diffusers' names and by original ones.
const HalfMarks kMarks{
    .encoder = {"encoder.down_blocks.0.resnets.0.conv1.conv.weight", "encoder.down_blocks.0.res_blocks.0.conv1.conv.weight"},
    .decoder = {"decoder.mid_block.resnets.0.conv1.conv.weight", "decoder.up_blocks.0.res_blocks.0.conv1.conv.weight"},
    .prefixes = {"", "vae."}};
const std::string kConvolutions = "ltx-2.5-video-vae-conv-bf16.safetensors";

/// Counts the steps of a half in original names, which are at odd places of a row.
size_t num_steps(const io::TensorSource& tensors, const std::string& row) {
  size_t count = 0;
  while (tensors.contains(fmt::format("{}.{}.conv.conv.weight", row, 2 * count + 1))) ++count;
  return count;
}

/// Tells whether an entry has LTX-2.5's decoder by diffusion.
bool has_diffusion(const ModelEntry& entry) {
  return entry.tensors && std::ranges::any_of(entry.tensors->names(),
                                              [](const auto& name) { return name.find("decoder.diff_blocks.") != std::string::npos; });
}

void add_layer(std::vector<io::KeyRule>& rules, const std::string& theirs, const std::string& ours) {
  for (const char* part : {".weight", ".bias"}) rules.push_back({theirs + part, {ours + part}});
}

/// Blocks of one width, which original files call res_blocks.
void add_resnets(std::vector<io::KeyRule>& rules, const std::string& theirs, const std::string& ours) {
  for (const char* conv : {"conv1", "conv2"})
    add_layer(rules, fmt::format("{}.res_blocks.{{}}.{}.conv", theirs, conv), fmt::format("{}.resnets.{{}}.{}.conv", ours, conv));
}

}  // namespace

io::KeyMap original_autoencoder_keys(size_t num_encoder_levels, size_t num_decoder_levels) {
  std::vector<io::KeyRule> rules{{kOriginalMean, {"latents_mean"}}, {kOriginalDeviation, {"latents_std"}}};
  for (size_t i = 0; i < num_encoder_levels; ++i) {
    const auto level = fmt::format("encoder.down_blocks.{}", i);
    add_resnets(rules, fmt::format("encoder.down_blocks.{}", 2 * i), level);
    add_layer(rules, fmt::format("encoder.down_blocks.{}.conv.conv", 2 * i + 1), level + ".downsamplers.0.conv.conv");
  }
  add_resnets(rules, fmt::format("encoder.down_blocks.{}", 2 * num_encoder_levels), "encoder.mid_block");
  add_resnets(rules, "decoder.up_blocks.0", "decoder.mid_block");
  for (size_t i = 0; i < num_decoder_levels; ++i) {
    const auto level = fmt::format("decoder.up_blocks.{}", i);
    add_layer(rules, fmt::format("decoder.up_blocks.{}.conv.conv", 2 * i + 1), level + ".upsamplers.0.conv.conv");
    add_resnets(rules, fmt::format("decoder.up_blocks.{}", 2 * i + 2), level);
  }
  return io::KeyMap(rules);
}

Source find_autoencoder(const ModelFiles& files) {
  const auto found = find_halves(files, kMarks);
  if (!found.tensors) return {};
  if (!found.decoder && has_diffusion(*found.encoder))
    warn(
        "{} decodes frames by diffusion, which does not run here: clips can be encoded with it and not drawn; to draw, name the decoder of "
        "convolutions in its place, {}",
        found.encoder->label, kConvolutions);
  io::KeyMap keys;
  const auto& tensors = *found.tensors;
  if (found.is_original)
    keys = original_autoencoder_keys(num_steps(tensors, "encoder.down_blocks"), num_steps(tensors, "decoder.up_blocks"));
  return {found.entry(), tensors, keys, found.is_original};
}

}  // namespace burnish::models::ltx2
