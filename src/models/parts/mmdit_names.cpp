#include "models/parts/mmdit_names.h"

namespace burnish::models {

const RenamedLayers kDoubleBlockLayers{
    {"img_attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"txt_attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}},
    {"img_attn.proj", {"attn.to_out.0"}},
    {"txt_attn.proj", {"attn.to_add_out"}},
    {"img_mlp.0", {"ff.net.0.proj"}},
    {"img_mlp.2", {"ff.net.2"}},
    {"txt_mlp.0", {"ff_context.net.0.proj"}},
    {"txt_mlp.2", {"ff_context.net.2"}},
};
const RenamedLayers kSingleBlockLayers{
    {"linear1", {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"}},
    {"linear2", {"proj_out"}},
};
const RenamedLayers kBlockNorms{
    {"double_blocks.{}.img_attn.norm.query_norm.scale", {"transformer_blocks.{}.attn.norm_q.weight"}},
    {"double_blocks.{}.img_attn.norm.key_norm.scale", {"transformer_blocks.{}.attn.norm_k.weight"}},
    {"double_blocks.{}.txt_attn.norm.query_norm.scale", {"transformer_blocks.{}.attn.norm_added_q.weight"}},
    {"double_blocks.{}.txt_attn.norm.key_norm.scale", {"transformer_blocks.{}.attn.norm_added_k.weight"}},
    {"single_blocks.{}.norm.query_norm.scale", {"single_transformer_blocks.{}.attn.norm_q.weight"}},
    {"single_blocks.{}.norm.key_norm.scale", {"single_transformer_blocks.{}.attn.norm_k.weight"}},
};

const RenamedLayers kOuterLayers{
    {"img_in", {"x_embedder"}},
    {"txt_in", {"context_embedder"}},
    {"final_layer.linear", {"proj_out"}},
};
const RenamedLayers kDoubleModulation{{"img_mod.lin", {"norm1.linear"}}, {"txt_mod.lin", {"norm1_context.linear"}}};
const RenamedLayers kSingleModulation{{"modulation.lin", {"norm.linear"}}};

void add_original_blocks(RenamedLayers& all, const RenamedLayers& of_double, const RenamedLayers& of_single, int64_t num_double,
                         int64_t num_single) {
  add_blocks(all, of_double, "double_blocks.", "transformer_blocks.", num_double);
  add_blocks(all, of_single, "single_blocks.", "single_transformer_blocks.", num_single);
}

io::KeyMap modulated_keys(const RenamedLayers& embedders) {
  std::vector<io::KeyRule> rules;
  for (const auto* of_double : {&kDoubleModulation, &kDoubleBlockLayers})
    add_rules(rules, *of_double, "double_blocks.{}.", "transformer_blocks.{}.");
  for (const auto* of_single : {&kSingleModulation, &kSingleBlockLayers})
    add_rules(rules, *of_single, "single_blocks.{}.", "single_transformer_blocks.{}.");
  add_rules(rules, kOuterLayers);
  add_rules(rules, embedders);
  for (const auto& norm : kBlockNorms) rules.push_back({norm.theirs, norm.ours, io::KeyRule::Op::copy});
  for (const char* part : {".weight", ".bias"})
    rules.push_back({std::string(kLastNorm) + part, {std::string("norm_out.linear") + part}, io::KeyRule::Op::swap_halves});
  return io::KeyMap(rules);
}

RenamedLayers modulated_layers(const RenamedLayers& embedders, int64_t num_double, int64_t num_single) {
  auto layers = kOuterLayers;
  layers.insert(layers.end(), embedders.begin(), embedders.end());
  add_original_blocks(layers, kDoubleModulation, kSingleModulation, num_double, num_single);
  add_original_blocks(layers, kDoubleBlockLayers, kSingleBlockLayers, num_double, num_single);
  return layers;
}

std::map<std::string, LayerTable> written_modulated(const RenamedLayers& layers) {
  auto written = written_in(layers);
  written["comfyui"][std::string("diffusion_model.") + kLastNorm] = {"norm_out.linear"};
  written["kohya"][kLastNormOfKohya] = {"norm_out.linear"};
  return written;
}

}  // namespace burnish::models
