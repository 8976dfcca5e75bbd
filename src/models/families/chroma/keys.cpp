#include "models/families/chroma/keys.h"

#include "models/parts/layer_tables.h"
#include "models/parts/mmdit_names.h"

namespace burnish::models::chroma {

namespace {

// Facts: diffusers' single_file_utils.py.
const RenamedLayers kOriginalTime{{"in_layer", {"linear_1"}}, {"out_layer", {"linear_2"}}};
const std::string kTimeLayers = "distilled_guidance_layer.layers.";

RenamedLayers original_layers(const Config& config) {
  auto layers = kOuterLayers;
  for (const char* same : {"distilled_guidance_layer.in_proj", "distilled_guidance_layer.out_proj"}) layers.push_back({same, {same}});
  add_original_blocks(layers, kDoubleBlockLayers, kSingleBlockLayers, config.num_double_blocks, config.num_single_blocks);
  add_blocks(layers, kOriginalTime, kTimeLayers, kTimeLayers, config.num_time_layers);
  return layers;
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, kDoubleBlockLayers, "double_blocks.{}.", "transformer_blocks.{}.");
  add_rules(rules, kSingleBlockLayers, "single_blocks.{}.", "single_transformer_blocks.{}.");
  add_rules(rules, kOuterLayers);
  add_rules(rules, kOriginalTime, kTimeLayers + "{}.", kTimeLayers + "{}.");
  for (const auto& norm : kBlockNorms) rules.push_back({norm.theirs, norm.ours, io::KeyRule::Op::copy});
  rules.push_back({"distilled_guidance_layer.norms.{}.scale", {"distilled_guidance_layer.norms.{}.weight"}, io::KeyRule::Op::copy});
  return io::KeyMap(rules);
}

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_in(original_layers(config)); }

LayerTable foreign_layers(const Config& config) {
  LayerTable table;
  for (const auto& layer : original_layers(config)) {
    table[layer.theirs] = table["lora_unet_" + with_underscores(layer.theirs)] = layer.ours;
    for (const auto& ours : layer.ours) table["lora_transformer_" + with_underscores(ours)] = {ours};
  }
  return table;
}

}  // namespace burnish::models::chroma
