#include "models/families/krea2/keys.h"

#include "models/parts/layer_tables.h"

namespace burnish::models::krea2 {

namespace {

// Facts: Krea's raw.safetensors, and the converters of diffusers and DiffSynth-Studio.
const RenamedLayers kInBlocks{
    {"attn.wq", {"attn.to_q"}}, {"attn.wk", {"attn.to_k"}},     {"attn.wv", {"attn.to_v"}}, {"attn.gate", {"attn.to_gate"}},
    {"mlp.gate", {"ff.gate"}},  {"attn.wo", {"attn.to_out.0"}}, {"mlp.up", {"ff.up"}},      {"mlp.down", {"ff.down"}},
};
const RenamedLayers kNormsInBlocks{
    {"prenorm", {"norm1"}},
    {"postnorm", {"norm2"}},
    {"attn.qknorm.qnorm", {"attn.norm_q"}},
    {"attn.qknorm.knorm", {"attn.norm_k"}},
};
const RenamedLayers kOutside{
    {"first", {"img_in"}},
    {"tmlp.0", {"time_embed.linear_1"}},
    {"tmlp.2", {"time_embed.linear_2"}},
    {"tproj.1", {"time_mod_proj"}},
    {"txtmlp.1", {"txt_in.linear_1"}},
    {"txtmlp.3", {"txt_in.linear_2"}},
    {"txtfusion.projector", {"text_fusion.projector"}},
    {"last.linear", {"final_layer.linear"}},
};
const RenamedLayers kNormsOutside{{"txtmlp.0", {"txt_in.norm"}}, {"last.norm", {"final_layer.norm"}}};

std::vector<NamedStack> stacks_of(const Config& config) {
  return {{"blocks.", "transformer_blocks.", config.num_layers},
          {"txtfusion.layerwise_blocks.", "text_fusion.layerwise_blocks.", config.num_layerwise_blocks},
          {"txtfusion.refiner_blocks.", "text_fusion.refiner_blocks.", config.num_refiner_blocks}};
}

RenamedLayers original_layers(const Config& config) { return with_blocks(kOutside, kInBlocks, stacks_of(config)); }

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  for (const auto& stack : stacks_of({})) {
    add_rules(rules, kInBlocks, stack.theirs + "{}.", stack.ours + "{}.");
    add_scales(rules, kNormsInBlocks, stack.theirs + "{}.", stack.ours + "{}.");
  }
  add_rules(rules, kOutside);
  add_scales(rules, kNormsOutside);
  rules.push_back({"blocks.{}.mod.lin", {"transformer_blocks.{}.scale_shift_table"}, io::KeyRule::Op::stack_rows});
  rules.push_back({"last.modulation.lin", {"final_layer.scale_shift_table"}});
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) { return named_by(original_layers(config)); }

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_for_all(original_layers(config)); }

std::vector<std::string> target_names(const std::string& path) {
  static const io::KeyMap keys = original_keys();
  return both_names(keys, path);
}

}  // namespace burnish::models::krea2
