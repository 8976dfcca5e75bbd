#include "models/zimage/keys.h"

#include <algorithm>

namespace burnish::models::zimage {

namespace {

/// A layer of the original code: its name and ours.
struct RenamedLayer {
  std::string theirs;
  std::vector<std::string> ours;
};

// Facts: Tongyi-MAI's transformer.py and diffusers' single_file_utils.py.
const std::vector<RenamedLayer> kInBlocks{
    {"attention.qkv", {"attention.to_q", "attention.to_k", "attention.to_v"}},
    {"attention.out", {"attention.to_out.0"}},
};
const std::vector<RenamedLayer> kNormsInBlocks{{"attention.q_norm", {"attention.norm_q"}}, {"attention.k_norm", {"attention.norm_k"}}};
const std::vector<RenamedLayer> kOutside{
    {"x_embedder", {"all_x_embedder.2-1"}},
    {"final_layer.linear", {"all_final_layer.2-1.linear"}},
    {"final_layer.adaLN_modulation.1", {"all_final_layer.2-1.adaLN_modulation.1"}},
};
constexpr const char* kStacks[] = {"layers", "noise_refiner", "context_refiner"};

std::vector<std::string> each_behind(const std::string& prefix, std::vector<std::string> names) {
  for (auto& name : names) name = prefix + name;
  return names;
}

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace

io::KeyMap original_keys() {
  using Op = io::KeyRule::Op;
  std::vector<io::KeyRule> rules;
  auto add = [&](const std::string& prefix, const RenamedLayer& layer, const std::string& part) {
    auto ours = each_behind(prefix, layer.ours);
    for (auto& name : ours) name += part;
    rules.push_back({prefix + layer.theirs + part, ours, ours.size() > 1 ? Op::stack_rows : Op::copy});
  };
  for (const std::string stack : kStacks) {
    for (const auto* layers : {&kInBlocks, &kNormsInBlocks}) {
      for (const auto& layer : *layers) add(stack + ".{}.", layer, ".weight");
    }
  }
  for (const auto& layer : kOutside) {
    for (const char* part : {".weight", ".bias"}) add("", layer, part);
  }
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) {
  std::vector<RenamedLayer> all = kOutside;
  for (const std::string stack : kStacks) {
    auto count = stack == "layers" ? config.num_layers : config.num_refiner_layers;
    for (int64_t i = 0; i < count; ++i) {
      auto prefix = stack + "." + std::to_string(i) + ".";
      for (const auto* layers : {&kInBlocks, &kNormsInBlocks}) {
        for (const auto& layer : *layers) all.push_back({prefix + layer.theirs, each_behind(prefix, layer.ours)});
      }
    }
  }
  LayerTable table;
  for (const auto& layer : all) {
    table[layer.theirs] = table["diffusion_model." + layer.theirs] = layer.ours;
    table["lora_unet_" + with_underscores(layer.theirs)] = layer.ours;
  }
  return table;
}

}  // namespace burnish::models::zimage
