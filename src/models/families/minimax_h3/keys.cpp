#include "models/families/minimax_h3/keys.h"

#include <algorithm>

#include "models/parts/layer_tables.h"

namespace burnish::models::minimax_h3 {

namespace {

// Facts: the converters of diffusers (single_file_utils.py, lora_conversion_utils.py).
const std::string kGated = "mlp.fc1", kOurGated = "ff.net.0.proj", kKohya = "lora_unet_";
const RenamedLayers kInBlocks{
    {"attn.qkv_proj", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"attn.out_proj", {"attn.to_out.0"}},
    {"mlp.fc2", {"ff.net.2"}},
};
const RenamedLayers kNormsInBlocks{{"attn.q_norm", {"attn.norm_q"}}, {"attn.k_norm", {"attn.norm_k"}}};
const RenamedLayers kOutside{
    {"video_patch_proj", {"proj_in"}},
    {"audio_patch_proj", {"audio_proj_in"}},
    {"condition_proj", {"context_embedder"}},
    {"time_embedder.proj_in", {"time_embedder.linear_1"}},
    {"time_embedder.proj_out", {"time_embedder.linear_2"}},
    {"final_layer.adaln_proj.linear", {"norm_out.linear"}},
    {"final_layer.video_out", {"proj_out"}},
    {"final_layer.audio_out", {"audio_proj_out"}},
};
const RenamedLayers kNormsOutside{{"final_layer.norm", {"norm_out.norm"}}};
/// The layer that modulates a block; blocks of texts have none.
const std::string kOfTime = "adaln_proj.linear";

std::vector<NamedStack> stacks_of(const Config& config) {
  return {{"blocks.", "transformer_blocks.", config.num_layers},
          {"token_refiner.blocks.", "token_refiner.refiner_blocks.", config.num_refiner_layers}};
}

RenamedLayers original_layers(const Config& config) {
  auto in_blocks = kInBlocks;
  in_blocks.push_back({kGated, {kOurGated}});
  auto layers = with_blocks(kOutside, in_blocks, stacks_of(config));
  add_blocks(layers, {{kOfTime, {kOfTime}}}, "blocks.", "transformer_blocks.", config.num_layers);
  return layers;
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, kOutside);
  add_rules(rules, kNormsOutside);
  rules.push_back({kTimeTable, {kTimeTable}});
  for (const auto& stack : stacks_of({})) {
    const auto theirs = stack.theirs + "{}.", ours = stack.ours + "{}.";
    add_rules(rules, kInBlocks, theirs, ours);
    add_rules(rules, kNormsInBlocks, theirs, ours);
    for (const std::string norm : {"norm1", "norm2"}) rules.push_back({theirs + norm + ".weight", {ours + norm + ".weight"}});
    rules.push_back({theirs + kGated + ".weight", {ours + kOurGated + ".weight"}, io::KeyRule::Op::swap_halves});
  }
  add_rules(rules, {{kOfTime, {kOfTime}}}, "blocks.{}.", "transformer_blocks.{}.");
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) { return named_by(original_layers(config), kKohya); }

std::set<std::string> swapped_layers(const Config& config) {
  std::set<std::string> swapped;
  for (const auto& layer : original_layers(config)) {
    if (layer.theirs.ends_with(kGated)) swapped.insert({layer.theirs, kKohya + with_underscores(layer.theirs)});
  }
  return swapped;
}

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_in(original_layers(config)); }

std::vector<std::string> target_names(const std::string& path) {
  static const io::KeyMap keys = original_keys();
  const auto& [fused, parts] = kInBlocks.front();
  const auto part = std::ranges::find_if(parts, [&](const auto& ours) { return path.ends_with("." + ours); });
  if (part == parts.end()) return both_names(keys, path);
  // One of three layers that are one in original files: that one lies where the layer of the block's attention that is no part of it does.
  const auto& beside = kInBlocks[1];
  const auto original = both_names(keys, path.substr(0, path.size() - part->size()) + beside.ours.front()).back();
  return {path, original.substr(0, original.size() - beside.theirs.size()) + fused};
}

}  // namespace burnish::models::minimax_h3
