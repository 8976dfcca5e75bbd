#include "models/families/longcat_video/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::longcat_video {

namespace {

// Facts: LongCat-Video's longcat_video/modules, and files of ComfyUI-WanVideoWrapper (Kijai/LongCat-Video_comfy).
const RenamedLayers kFused{
    {"attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"cross_attn.q_linear", {"cross_attn.to_q"}},
    {"cross_attn.kv_linear", {"cross_attn.to_k", "cross_attn.to_v"}},
};
const RenamedLayers kAsHere{{"attn.proj", {"attn.proj"}}, {"cross_attn.proj", {"cross_attn.proj"}},
                            {"ffn.w1", {"ffn.w1"}},       {"ffn.w2", {"ffn.w2"}},
                            {"ffn.w3", {"ffn.w3"}},       {"adaLN_modulation.1", {"adaLN_modulation.1"}}};
const RenamedLayers kOutsideAsHere{
    {"x_embedder.proj", {"x_embedder.proj"}},         {"t_embedder.mlp.0", {"t_embedder.mlp.0"}},
    {"t_embedder.mlp.2", {"t_embedder.mlp.2"}},       {"y_embedder.y_proj.0", {"y_embedder.y_proj.0"}},
    {"y_embedder.y_proj.2", {"y_embedder.y_proj.2"}}, {"final_layer.adaLN_modulation.1", {"final_layer.adaLN_modulation.1"}},
    {"final_layer.linear", {"final_layer.linear"}}};
const RenamedLayers kOfWrapper{
    {"self_attn.q", {"attn.to_q"}},
    {"self_attn.k", {"attn.to_k"}},
    {"self_attn.v", {"attn.to_v"}},
    {"self_attn.o", {"attn.proj"}},
    {"cross_attn.q", {"cross_attn.to_q"}},
    {"cross_attn.k", {"cross_attn.to_k"}},
    {"cross_attn.v", {"cross_attn.to_v"}},
    {"cross_attn.o", {"cross_attn.proj"}},
    {"ffn.w1", {"ffn.w1"}},
    {"ffn.w2", {"ffn.w2"}},
    {"ffn.w3", {"ffn.w3"}},
    {"modulation.1", {"adaLN_modulation.1"}},
};
const RenamedLayers kNormsOfWrapper{
    {"norm3", {"pre_crs_attn_norm"}},
    {"self_attn.norm_q", {"attn.q_norm"}},
    {"self_attn.norm_k", {"attn.k_norm"}},
    {"cross_attn.norm_q", {"cross_attn.q_norm"}},
    {"cross_attn.norm_k", {"cross_attn.k_norm"}},
};
const RenamedLayers kOutsideOfWrapper{
    {"patch_embedding", {"x_embedder.proj"}},       {"time_embedding.mlp.0", {"t_embedder.mlp.0"}},
    {"time_embedding.mlp.2", {"t_embedder.mlp.2"}}, {"text_embedding.0", {"y_embedder.y_proj.0"}},
    {"text_embedding.2", {"y_embedder.y_proj.2"}},  {"head.modulation.1", {"final_layer.adaLN_modulation.1"}},
    {"head.head", {"final_layer.linear"}},
};
const std::string kBlocks = "blocks.", kAnyBlock = "blocks.{}.";

RenamedLayers makers_layers(const Config& config) {
  auto layers = with_blocks(kOutsideAsHere, kFused, {{kBlocks, kBlocks, config.num_layers}});
  add_blocks(layers, kAsHere, kBlocks, kBlocks, config.num_layers);
  return layers;
}

RenamedLayers wrapper_layers(const Config& config) {
  return with_blocks(kOutsideOfWrapper, kOfWrapper, {{kBlocks, kBlocks, config.num_layers}});
}

/// Writes a path as the makers' adapter files do.
std::string with_lora_hyphens(const std::string& path) {
  const std::string hyphen = "___lorahyphen___";
  auto name = "lora" + hyphen;
  for (const char letter : path) letter == '.' ? name += hyphen : name += letter;
  return name;
}

}  // namespace

io::KeyMap fused_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, kFused, kAnyBlock, kAnyBlock);
  return io::KeyMap(rules);
}

io::KeyMap wrapper_keys() {
  std::vector<io::KeyRule> rules;
  for (const auto* layers : {&kOfWrapper, &kNormsOfWrapper}) add_rules(rules, *layers, kAnyBlock, kAnyBlock);
  add_rules(rules, kOutsideOfWrapper);
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) {
  LayerTable table;
  for (const auto& [theirs, ours] : makers_layers(config)) {
    for (const char* before : {"", "transformer.", "dit.", "diffusion_model.", "base_model.model."}) table[before + theirs] = ours;
    table["lora_unet_" + with_underscores(theirs)] = table[with_lora_hyphens(theirs)] = ours;
  }
  for (const auto& [theirs, ours] : wrapper_layers(config)) table[theirs] = table["diffusion_model." + theirs] = ours;
  return table;
}

std::map<std::string, LayerTable> written_layers(const Config& config) {
  const auto layers = makers_layers(config);
  auto written = written_for_all(layers);
  for (const auto& [theirs, ours] : layers) {
    written["diffusers"]["transformer." + theirs] = ours;
    written["peft"]["base_model.model." + theirs] = ours;
  }
  written["comfyui"].clear();
  for (const auto& [theirs, ours] : wrapper_layers(config)) written["comfyui"]["diffusion_model." + theirs] = ours;
  return written;
}

std::vector<std::string> target_names(const std::string& path) {
  for (const auto& [theirs, ours] : kFused) {
    for (const auto& layer : ours) {
      if (path.ends_with("." + layer)) return {path, path.substr(0, path.size() - layer.size()) + theirs};
    }
  }
  return {path};
}

}  // namespace burnish::models::longcat_video
