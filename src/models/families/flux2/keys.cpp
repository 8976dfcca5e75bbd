#include "models/families/flux2/keys.h"

#include "models/parts/mmdit_names.h"

namespace burnish::models::flux2 {

namespace {

// Facts: black-forest-labs' flux2/model.py and diffusers' single_file_utils.py.
const RenamedLayers kDouble{
    {"img_attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"txt_attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}},
    {"img_attn.proj", {"attn.to_out.0"}},
    {"txt_attn.proj", {"attn.to_add_out"}},
    {"img_mlp.0", {"ff.linear_in"}},
    {"img_mlp.2", {"ff.linear_out"}},
    {"txt_mlp.0", {"ff_context.linear_in"}},
    {"txt_mlp.2", {"ff_context.linear_out"}},
};
const RenamedLayers kSingle{{"linear1", {"attn.to_qkv_mlp_proj"}}, {"linear2", {"attn.to_out"}}};
const RenamedLayers kDoubleNorms{
    {"img_attn.norm.query_norm", {"attn.norm_q"}},
    {"img_attn.norm.key_norm", {"attn.norm_k"}},
    {"txt_attn.norm.query_norm", {"attn.norm_added_q"}},
    {"txt_attn.norm.key_norm", {"attn.norm_added_k"}},
};
const RenamedLayers kSingleNorms{{"norm.query_norm", {"attn.norm_q"}}, {"norm.key_norm", {"attn.norm_k"}}};
const RenamedLayers kOutside{
    {"img_in", {"x_embedder"}},
    {"txt_in", {"context_embedder"}},
    {"time_in.in_layer", {"time_guidance_embed.timestep_embedder.linear_1"}},
    {"time_in.out_layer", {"time_guidance_embed.timestep_embedder.linear_2"}},
    {"double_stream_modulation_img.lin", {"double_stream_modulation_img.linear"}},
    {"double_stream_modulation_txt.lin", {"double_stream_modulation_txt.linear"}},
    {"single_stream_modulation.lin", {"single_stream_modulation.linear"}},
    {"final_layer.linear", {"proj_out"}},
};
/// Layers of models that are told a guidance.
const RenamedLayers kOfGuidance{
    {"guidance_in.in_layer", {"time_guidance_embed.guidance_embedder.linear_1"}},
    {"guidance_in.out_layer", {"time_guidance_embed.guidance_embedder.linear_2"}},
};
/// Our norm_out.linear, with the shift before the scale.
const std::string kLast = "final_layer.adaLN_modulation.1", kOurLast = "norm_out.linear";
const std::string kKohya = "lora_unet_";

/// All linear layers of a model.
RenamedLayers original_layers(const Config& config) {
  auto layers = kOutside;
  if (config.guidance_embeds) layers.insert(layers.end(), kOfGuidance.begin(), kOfGuidance.end());
  layers.push_back({kLast, {kOurLast}});
  add_original_blocks(layers, kDouble, kSingle, config.num_double_blocks, config.num_single_blocks);
  return layers;
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, kOutside);
  add_rules(rules, kOfGuidance);
  add_rules(rules, kDouble, "double_blocks.{}.", "transformer_blocks.{}.");
  add_rules(rules, kSingle, "single_blocks.{}.", "single_transformer_blocks.{}.");
  add_scales(rules, kDoubleNorms, "double_blocks.{}.", "transformer_blocks.{}.");
  add_scales(rules, kSingleNorms, "single_blocks.{}.", "single_transformer_blocks.{}.");
  rules.push_back({kLast + ".weight", {kOurLast + ".weight"}, io::KeyRule::Op::swap_halves});
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) {
  LayerTable table;
  for (const auto& layer : original_layers(config)) {
    table[layer.theirs] = table[kKohya + with_underscores(layer.theirs)] = layer.ours;
    for (const auto& ours : layer.ours) table[kKohya + with_underscores(ours)] = {ours};
  }
  RenamedLayers norms;
  add_original_blocks(norms, kDoubleNorms, kSingleNorms, config.num_double_blocks, config.num_single_blocks);
  for (const auto& norm : norms) table[norm.theirs] = table[norm.theirs + ".scale"] = norm.ours;
  return table;
}

std::set<std::string> swapped_layers() { return {kLast, kKohya + with_underscores(kLast)}; }

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_in(original_layers(config)); }

}  // namespace burnish::models::flux2
