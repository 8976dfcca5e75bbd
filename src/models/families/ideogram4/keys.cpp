#include "models/families/ideogram4/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::ideogram4 {

namespace {

// Facts: DiffSynth-Studio's ideogram4_dit.py, whose names the published files have, and diffusers' lora_conversion_utils.py.
const RenamedLayers kInBlocks{
    {"attention.qkv", {"attention.to_q", "attention.to_k", "attention.to_v"}},
    {"attention.o", {"attention.to_out.0"}},
};
/// Layers that all programs call alike.
const char* const kAlikeInBlocks[] = {"feed_forward.w1", "feed_forward.w2", "feed_forward.w3", "adaln_modulation"};
const char* const kAlikeOutside[] = {"input_proj", "llm_cond_proj",      "t_embedding.mlp_in",          "t_embedding.mlp_out",
                                     "adaln_proj", "final_layer.linear", "final_layer.adaln_modulation"};
const std::string kStack = "layers.";

RenamedLayers all_layers(const Config& config) {
  RenamedLayers layers, in_blocks = kInBlocks;
  for (const std::string name : kAlikeOutside) layers.push_back({name, {name}});
  for (const std::string name : kAlikeInBlocks) in_blocks.push_back({name, {name}});
  add_blocks(layers, in_blocks, kStack, kStack, config.num_layers);
  return layers;
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, kInBlocks, kStack + "{}.", kStack + "{}.");
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) {
  LayerTable table = named_by(all_layers(config));
  for (const auto& layer : all_layers(config)) table["conditional_transformer." + layer.theirs] = layer.ours;
  return table;
}

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_for_all(all_layers(config)); }

std::vector<std::string> target_names(const std::string& path) {
  for (const auto& layer : kInBlocks) {
    for (const auto& ours : layer.ours) {
      if (path.ends_with("." + ours)) return {path, path.substr(0, path.size() - ours.size()) + layer.theirs};
    }
  }
  return {path};
}

}  // namespace burnish::models::ideogram4
