#include "models/families/qwen_image_21/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::qwen_image_21 {

namespace {

// Facts: ComfyUI's model_detection.py. All other layers have diffusers' names there.
const RenamedLayers kInBlocks{{"img_mlp.gate_up", {"img_mlp.gate_layer", "img_mlp.proj"}}};
const std::string kBlocks = "transformer_blocks.";

}  // namespace

io::KeyMap comfyui_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, kInBlocks, kBlocks + "{}.", kBlocks + "{}.");
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) {
  RenamedLayers layers;
  add_blocks(layers, kInBlocks, kBlocks, kBlocks, config.num_layers);
  return named_by(layers);
}

}  // namespace burnish::models::qwen_image_21
