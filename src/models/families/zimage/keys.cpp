#include "models/families/zimage/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::zimage {

namespace {

// Facts: Tongyi-MAI's transformer.py and diffusers' single_file_utils.py.
const RenamedLayers kInBlocks{
    {"attention.qkv", {"attention.to_q", "attention.to_k", "attention.to_v"}},
    {"attention.out", {"attention.to_out.0"}},
};
const RenamedLayers kNormsInBlocks{{"attention.q_norm", {"attention.norm_q"}}, {"attention.k_norm", {"attention.norm_k"}}};
const RenamedLayers kOutside{
    {"x_embedder", {"all_x_embedder.2-1"}},
    {"final_layer.linear", {"all_final_layer.2-1.linear"}},
    {"final_layer.adaLN_modulation.1", {"all_final_layer.2-1.adaLN_modulation.1"}},
};
constexpr const char* kStacks[] = {"layers", "noise_refiner", "context_refiner"};

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  for (const std::string stack : kStacks) {
    for (const auto* layers : {&kInBlocks, &kNormsInBlocks}) add_rules(rules, *layers, stack + ".{}.", stack + ".{}.");
  }
  add_rules(rules, kOutside);
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) {
  auto all = kOutside;
  for (const std::string stack : kStacks) {
    auto count = stack == "layers" ? config.num_layers : config.num_refiner_layers;
    for (const auto* layers : {&kInBlocks, &kNormsInBlocks}) add_blocks(all, *layers, stack + ".", stack + ".", count);
  }
  LayerTable table;
  for (const auto& layer : all) {
    table[layer.theirs] = table["diffusion_model." + layer.theirs] = layer.ours;
    table["lora_unet_" + with_underscores(layer.theirs)] = layer.ours;
  }
  return table;
}

}  // namespace burnish::models::zimage
