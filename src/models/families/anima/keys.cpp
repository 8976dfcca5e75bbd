#include "models/families/anima/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::anima {

namespace {

// Facts: circlestone-labs' anima files, and the converters of diffusers and ComfyUI.
const RenamedLayers kInBlocks{
    {"adaln_modulation_self_attn.1", {"norm1.linear_1"}},
    {"adaln_modulation_self_attn.2", {"norm1.linear_2"}},
    {"adaln_modulation_cross_attn.1", {"norm2.linear_1"}},
    {"adaln_modulation_cross_attn.2", {"norm2.linear_2"}},
    {"adaln_modulation_mlp.1", {"norm3.linear_1"}},
    {"adaln_modulation_mlp.2", {"norm3.linear_2"}},
    {"self_attn.q_proj", {"attn1.to_q"}},
    {"self_attn.k_proj", {"attn1.to_k"}},
    {"self_attn.v_proj", {"attn1.to_v"}},
    {"self_attn.output_proj", {"attn1.to_out.0"}},
    {"cross_attn.q_proj", {"attn2.to_q"}},
    {"cross_attn.k_proj", {"attn2.to_k"}},
    {"cross_attn.v_proj", {"attn2.to_v"}},
    {"cross_attn.output_proj", {"attn2.to_out.0"}},
    {"mlp.layer1", {"ff.net.0.proj"}},
    {"mlp.layer2", {"ff.net.2"}},
};
const RenamedLayers kNormsInBlocks{
    {"self_attn.q_norm", {"attn1.norm_q"}},
    {"self_attn.k_norm", {"attn1.norm_k"}},
    {"cross_attn.q_norm", {"attn2.norm_q"}},
    {"cross_attn.k_norm", {"attn2.norm_k"}},
};
const RenamedLayers kOutside{
    {"x_embedder.proj.1", {"patch_embed.proj"}},
    {"t_embedder.1.linear_1", {"time_embed.t_embedder.linear_1"}},
    {"t_embedder.1.linear_2", {"time_embed.t_embedder.linear_2"}},
    {"final_layer.adaln_modulation.1", {"norm_out.linear_1"}},
    {"final_layer.adaln_modulation.2", {"norm_out.linear_2"}},
    {"final_layer.linear", {"proj_out"}},
};
const RenamedLayers kNormsOutside{{"t_embedding_norm", {"time_embed.norm"}}};

RenamedLayers original_layers(const Config& config) {
  return with_blocks(kOutside, kInBlocks, {{"blocks.", "transformer_blocks.", config.num_layers}});
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  for (const auto* layers : {&kInBlocks, &kNormsInBlocks}) add_rules(rules, *layers, "blocks.{}.", "transformer_blocks.{}.");
  for (const auto* layers : {&kOutside, &kNormsOutside}) add_rules(rules, *layers);
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) { return named_by(original_layers(config)); }

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_for_all(original_layers(config)); }

std::vector<std::string> target_names(const std::string& path) {
  static const io::KeyMap keys = original_keys();
  return both_names(keys, path);
}

}  // namespace burnish::models::anima
