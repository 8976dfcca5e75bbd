#include "models/families/sd3/keys.h"

#include <fmt/core.h>

#include "models/parts/layer_tables.h"

namespace burnish::models::sd3 {

namespace {

// Facts: Stability AI's sd3.5/mmditx.py and diffusers' single_file_utils.py.
const RenamedLayers kOuter{
    {"x_embedder.proj", {"pos_embed.proj"}},
    {"context_embedder", {"context_embedder"}},
    {"t_embedder.mlp.0", {"time_text_embed.timestep_embedder.linear_1"}},
    {"t_embedder.mlp.2", {"time_text_embed.timestep_embedder.linear_2"}},
    {"y_embedder.mlp.0", {"time_text_embed.text_embedder.linear_1"}},
    {"y_embedder.mlp.2", {"time_text_embed.text_embedder.linear_2"}},
    {"final_layer.linear", {"proj_out"}},
};
const RenamedLayers kBlock{
    {"x_block.adaLN_modulation.1", {"norm1.linear"}},
    {"x_block.attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"x_block.attn.proj", {"attn.to_out.0"}},
    {"x_block.mlp.fc1", {"ff.net.0.proj"}},
    {"x_block.mlp.fc2", {"ff.net.2"}},
    {"context_block.attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}},
};
const RenamedLayers kDual{
    {"x_block.attn2.qkv", {"attn2.to_q", "attn2.to_k", "attn2.to_v"}},
    {"x_block.attn2.proj", {"attn2.to_out.0"}},
};
/// The layers of a text that is read behind its block.
const RenamedLayers kTextEnd{
    {"context_block.adaLN_modulation.1", {"norm1_context.linear"}},
    {"context_block.attn.proj", {"attn.to_add_out"}},
    {"context_block.mlp.fc1", {"ff_context.net.0.proj"}},
    {"context_block.mlp.fc2", {"ff_context.net.2"}},
};
const RenamedLayers kNorms{
    {"x_block.attn.ln_q", {"attn.norm_q"}},
    {"x_block.attn.ln_k", {"attn.norm_k"}},
    {"x_block.attn2.ln_q", {"attn2.norm_q"}},
    {"x_block.attn2.ln_k", {"attn2.norm_k"}},
    {"context_block.attn.ln_q", {"attn.norm_added_q"}},
    {"context_block.attn.ln_k", {"attn.norm_added_k"}},
};
const std::string kTheirs = "joint_blocks.", kOurs = "transformer_blocks.";

/// The layers whose halves trade places: of the last norm, and of the text in the last block.
RenamedLayers swapped(int64_t num_layers) {
  return {{"final_layer.adaLN_modulation.1", {"norm_out.linear"}},
          {fmt::format("{}{}.{}", kTheirs, num_layers - 1, kTextEnd[0].theirs),
           {fmt::format("{}{}.{}", kOurs, num_layers - 1, kTextEnd[0].ours[0])}}};
}

RenamedLayers original_layers(const Config& c) {
  auto all = kOuter;
  auto add = [&](const RenamedLayers& layers, int64_t i) {
    for (const auto& layer : layers)
      all.push_back({fmt::format("{}{}.{}", kTheirs, i, layer.theirs), each_behind(fmt::format("{}{}.", kOurs, i), layer.ours)});
  };
  for (int64_t i = 0; i < c.num_layers; ++i) {
    add(kBlock, i);
    if (c.is_dual(i)) add(kDual, i);
    if (i < c.num_layers - 1) add(kTextEnd, i);
  }
  for (const auto& layer : swapped(c.num_layers)) all.push_back(layer);
  return all;
}

}  // namespace

io::KeyMap original_keys(int64_t num_layers) {
  std::vector<io::KeyRule> rules{{"pos_embed", {"pos_embed.pos_embed"}}};
  // Files are written by the first of two rules for one of our names.
  for (const auto& layer : swapped(num_layers)) {
    for (const char* part : {".weight", ".bias"})
      rules.push_back({layer.theirs + part, {layer.ours[0] + part}, io::KeyRule::Op::swap_halves});
  }
  add_rules(rules, kOuter);
  for (const auto* layers : {&kBlock, &kDual, &kTextEnd, &kNorms}) add_rules(rules, *layers, kTheirs + "{}.", kOurs + "{}.");
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config) { return named_by(original_layers(config)); }

std::map<std::string, LayerTable> written_layers(const Config& config) { return written_in(original_layers(config)); }

std::set<std::string> swapped_layers(const Config& config) {
  std::set<std::string> names;
  for (const auto& [theirs, ours] : named_by(swapped(config.num_layers))) names.insert(theirs);
  return names;
}

}  // namespace burnish::models::sd3
