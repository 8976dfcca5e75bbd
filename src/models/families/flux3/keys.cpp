#include "models/families/flux3/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::flux3 {

namespace {

// Facts: the converters of diffusers (single_file_utils.py, lora_conversion_utils.py) and DiffSynth-Studio.
const RenamedLayers kInBlocks{
    {"q_proj", {"attn.to_q"}},       {"k_proj", {"attn.to_k"}},    {"v_proj", {"attn.to_v"}},
    {"attn_out", {"attn.to_out.0"}}, {"mlp_in", {"ff.linear_in"}}, {"mlp_out", {"ff.linear_out"}},
};
const RenamedLayers kNormsInBlocks{{"norm.query_norm", {"attn.norm_q"}}, {"norm.key_norm", {"attn.norm_k"}}};
const RenamedLayers kOutside{
    {"emb_in.image", {"x_embedders.image"}},
    {"emb_in.image_cond", {"x_embedders.image_cond"}},
    {"txt_in", {"context_embedder"}},
    {"time_in.in_layer", {"timestep_embedder.linear_1"}},
    {"time_in.out_layer", {"timestep_embedder.linear_2"}},
    {"early_stream_modulations.image.lin", {"early_stream_modulations.image.linear"}},
    {"early_stream_modulations.image_cond.lin", {"early_stream_modulations.image_cond.linear"}},
    {"early_stream_modulations.txt.lin", {"early_stream_modulations.txt.linear"}},
    {"single_stream_modulations.image.lin", {"single_stream_modulations.image.linear"}},
    {"single_stream_modulations.image_cond.lin", {"single_stream_modulations.image_cond.linear"}},
    {"single_stream_modulations.txt.lin", {"single_stream_modulations.txt.linear"}},
    {"final_layer.image.linear", {"proj_out"}},
};
/// Layers that models alone have that are a flow map.
const RenamedLayers kOfFlowMaps{
    {"ref_time_in.in_layer", {"target_timestep_embedder.linear_1"}},
    {"ref_time_in.out_layer", {"target_timestep_embedder.linear_2"}},
};
/// Our norm_out.linear, with the shift before the scale.
const std::string kLast = "final_layer.image.adaLN_modulation.1", kOurLast = "norm_out.linear";
const std::string kKohya = "lora_unet_";

std::vector<NamedStack> stacks_of(const Config& config) {
  return {{"content_mode_blocks.image.", "mode_blocks.image.", config.num_early_blocks},
          {"content_mode_blocks.image_cond.", "mode_blocks.image_cond.", config.num_early_blocks},
          {"txt_mode_blocks.", "txt_mode_blocks.", config.num_early_blocks},
          {"single_blocks.", "single_transformer_blocks.", config.num_joint_blocks}};
}

RenamedLayers original_layers(const Config& config) {
  auto layers = kOutside;
  if (config.is_flow_map) layers.insert(layers.end(), kOfFlowMaps.begin(), kOfFlowMaps.end());
  layers.push_back({kLast, {kOurLast}});
  return with_blocks(layers, kInBlocks, stacks_of(config));
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  add_rules(rules, kOutside);
  add_rules(rules, kOfFlowMaps);
  for (const auto& stack : stacks_of({})) {
    add_rules(rules, kInBlocks, stack.theirs + "{}.", stack.ours + "{}.");
    add_scales(rules, kNormsInBlocks, stack.theirs + "{}.", stack.ours + "{}.");
  }
  rules.push_back({kLast + ".weight", {kOurLast + ".weight"}, io::KeyRule::Op::swap_halves});
  // Streams of relatives, which are refused by their names.
  rules.push_back({"emb_in.{}.weight", {"x_embedders.{}.weight"}});
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) { return named_by(original_layers(config), kKohya); }

std::set<std::string> swapped_layers() { return {kLast, kKohya + with_underscores(kLast)}; }

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_for_all(original_layers(config)); }

std::vector<std::string> target_names(const std::string& path) {
  static const io::KeyMap keys = original_keys();
  return both_names(keys, path);
}

}  // namespace burnish::models::flux3
