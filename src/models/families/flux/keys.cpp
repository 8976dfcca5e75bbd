#include "models/families/flux/keys.h"

#include <algorithm>

#include "models/parts/layer_tables.h"
#include "models/parts/mmdit_names.h"

namespace burnish::models::flux {

namespace {

// Facts: black-forest-labs' flux/model.py and diffusers' convert_flux_to_diffusers.py.
const RenamedLayers kBflEmbedders{
    {"time_in.in_layer", {"time_text_embed.timestep_embedder.linear_1"}},
    {"time_in.out_layer", {"time_text_embed.timestep_embedder.linear_2"}},
    {"vector_in.in_layer", {"time_text_embed.text_embedder.linear_1"}},
    {"vector_in.out_layer", {"time_text_embed.text_embedder.linear_2"}},
    {"guidance_in.in_layer", {"time_text_embed.guidance_embedder.linear_1"}},
    {"guidance_in.out_layer", {"time_text_embed.guidance_embedder.linear_2"}},
};
const RenamedLayers kDiffSynthDouble{
    {"norm1_a.linear", {"norm1.linear"}},
    {"norm1_b.linear", {"norm1_context.linear"}},
    {"attn.a_to_qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"attn.b_to_qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}},
    {"attn.a_to_out", {"attn.to_out.0"}},
    {"attn.b_to_out", {"attn.to_add_out"}},
    {"ff_a.0", {"ff.net.0.proj"}},
    {"ff_a.2", {"ff.net.2"}},
    {"ff_b.0", {"ff_context.net.0.proj"}},
    {"ff_b.2", {"ff_context.net.2"}},
};
const RenamedLayers kDiffSynthSingle{
    {"norm.linear", {"norm.linear"}},
    {"to_qkv_mlp", {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"}},
    {"proj_out", {"proj_out"}},
};
// Facts: diffusers' lora_conversion_utils.py.
const RenamedLayers kXlabsDouble{
    {"processor.qkv_lora1", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"processor.qkv_lora2", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}},
    {"processor.proj_lora1", {"attn.to_out.0"}},
    {"processor.proj_lora2", {"attn.to_add_out"}},
};
const RenamedLayers kXlabsSingle{
    {"processor.qkv_lora", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    {"processor.proj_lora", {"proj_out"}},
};
/// Our norm_out.linear, whose rows DiffSynth-Studio has in the other order too.
const char* const kSwappedDiffSynth = "final_norm_out.linear";
const RenamedLayers kDiffSynthOuter{
    {"x_embedder", {"x_embedder"}},
    {"context_embedder", {"context_embedder"}},
    {"time_embedder.timestep_embedder.0", {"time_text_embed.timestep_embedder.linear_1"}},
    {"time_embedder.timestep_embedder.2", {"time_text_embed.timestep_embedder.linear_2"}},
    {"pooled_text_embedder.0", {"time_text_embed.text_embedder.linear_1"}},
    {"pooled_text_embedder.2", {"time_text_embed.text_embedder.linear_2"}},
    {"guidance_embedder.timestep_embedder.0", {"time_text_embed.guidance_embedder.linear_1"}},
    {"guidance_embedder.timestep_embedder.2", {"time_text_embed.guidance_embedder.linear_2"}},
    {"final_proj_out", {"proj_out"}},
};

/// The norms of every block by the names of their weights without what stands behind the last dot, and with it, as ComfyUI has them.
void add_norms(RenamedLayers& all, const Config& config) {
  for (const auto& norm : kBlockNorms) {
    auto number = norm.theirs.find("{}"), ours = norm.ours[0].find("{}");
    auto count = norm.theirs.starts_with("double") ? config.num_double_blocks : config.num_single_blocks;
    for (int64_t i = 0; i < count; ++i) {
      auto theirs = std::string(norm.theirs).replace(number, 2, std::to_string(i));
      auto path = std::string(norm.ours[0]).replace(ours, 2, std::to_string(i));
      path.resize(path.rfind('.'));
      all.push_back({theirs, {path}});
      all.push_back({theirs.substr(0, theirs.rfind('.')), {path}});
    }
  }
}

RenamedLayers bfl_layers(const Config& config) {
  return modulated_layers(kBflEmbedders, config.num_double_blocks, config.num_single_blocks);
}

RenamedLayers diffsynth_layers(const Config& config) {
  RenamedLayers layers = kDiffSynthOuter;
  add_blocks(layers, kDiffSynthDouble, "blocks.", "transformer_blocks.", config.num_double_blocks);
  add_blocks(layers, kDiffSynthSingle, "single_blocks.", "single_transformer_blocks.", config.num_single_blocks);
  return layers;
}

}  // namespace

io::KeyMap bfl_keys() { return modulated_keys(kBflEmbedders); }

std::map<std::string, LayerTable> written_layers(const Config& config) {
  auto written = written_modulated(bfl_layers(config));
  for (const auto& [theirs, ours] : diffsynth_layers(config)) written["diffsynth"][theirs] = ours;
  written["diffsynth"][kSwappedDiffSynth] = {"norm_out.linear"};
  return written;
}

LayerTable foreign_layers(const Config& config) {
  auto layers = bfl_layers(config);
  LayerTable table;
  for (const auto& layer : layers) table["lora_unet_" + with_underscores(layer.theirs)] = layer.ours;
  for (auto& layer : diffsynth_layers(config)) layers.push_back(std::move(layer));
  add_original_blocks(layers, kXlabsDouble, kXlabsSingle, config.num_double_blocks, config.num_single_blocks);
  for (const auto& name : swapped_layers()) layers.push_back({name, {"norm_out.linear"}});
  add_norms(layers, config);

  for (const auto& layer : layers) {
    table[layer.theirs] = layer.ours;
    for (const auto& ours : layer.ours) {
      table["lora_transformer_" + with_underscores(ours)] = {ours};
      table["lora_unet_" + with_underscores(ours)] = {ours};
    }
  }
  return table;
}

std::set<std::string> swapped_layers() { return {kLastNorm, kLastNormOfKohya, kSwappedDiffSynth}; }

std::vector<std::string> target_names(const std::string& path) {
  std::vector<std::string> names;
  auto add = [&](const std::string& rest, const std::string& prefix, const RenamedLayers& layers) {
    for (const auto& layer : layers) {
      if (std::find(layer.ours.begin(), layer.ours.end(), rest) != layer.ours.end()) names.push_back(prefix + layer.theirs);
    }
  };
  auto add_block = [&](const std::string& ours, const std::string& theirs, const RenamedLayers& layers) {
    auto dot = path.find('.', ours.size());
    if (!path.starts_with(ours) || dot == path.npos) return;
    add(path.substr(dot + 1), theirs + path.substr(ours.size(), dot + 1 - ours.size()), layers);
  };
  add_block("transformer_blocks.", "blocks.", kDiffSynthDouble);
  add_block("single_transformer_blocks.", "single_blocks.", kDiffSynthSingle);
  add(path, "", kDiffSynthOuter);
  if (path != "proj_out") names.push_back(path);  // else "proj_out", which means the blocks' layers, would take the last layer as well
  return names;
}

}  // namespace burnish::models::flux
