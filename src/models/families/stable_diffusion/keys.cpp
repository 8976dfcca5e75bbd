#include "models/families/stable_diffusion/keys.h"

#include <algorithm>
#include <functional>

#include "models/parts/find_components.h"
#include "models/text/clip.h"
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::stable_diffusion {

namespace {

/// One layer: latent diffusion's name, ours.
using Pair = std::pair<std::string, std::string>;
using Pairs = std::vector<Pair>;

// Facts: CompVis' ldm/modules/diffusionmodules/openaimodel.py and Stability AI's sgm.
const Pairs kResnet{
    {"in_layers.0", "norm1"},  {"in_layers.2", "conv1"},  {"emb_layers.1", "time_emb_proj"},
    {"out_layers.0", "norm2"}, {"out_layers.3", "conv2"}, {"skip_connection", "conv_shortcut"},
};
const Pairs kOuter{
    {"input_blocks.0.0", "conv_in"},
    {"time_embed.0", "time_embedding.linear_1"},
    {"time_embed.2", "time_embedding.linear_2"},
    {"label_emb.0.0", "add_embedding.linear_1"},
    {"label_emb.0.2", "add_embedding.linear_2"},
    {"out.0", "conv_norm_out"},
    {"out.2", "conv_out"},
};
/// A transformer block's layers have the same names in both.
const std::vector<std::string> kTransformerBlock{
    "norm1",      "norm2",      "norm3",      "attn1.to_q",     "attn1.to_k",    "attn1.to_v", "attn1.to_out.0",
    "attn2.to_q", "attn2.to_k", "attn2.to_v", "attn2.to_out.0", "ff.net.0.proj", "ff.net.2",
};

void add_resnet(Pairs& all, const std::string& theirs, const std::string& ours) {
  for (const auto& [a, b] : kResnet) all.emplace_back(theirs + "." + a, ours + "." + b);
}

void add_attention(Pairs& all, const std::string& theirs, const std::string& ours, int64_t depth) {
  std::vector<std::string> layers{"norm", "proj_in", "proj_out"};
  for (int64_t k = 0; k < depth; ++k) {
    for (const auto& layer : kTransformerBlock) layers.push_back("transformer_blocks." + std::to_string(k) + "." + layer);
  }
  for (const auto& layer : layers) all.emplace_back(theirs + "." + layer, ours + "." + layer);
}

/// One step of a side: a residual block and the attention behind it.
void add_step(Pairs& all, const std::string& theirs, const std::string& level, size_t j, int64_t depth) {
  auto number = std::to_string(j);
  add_resnet(all, theirs + ".0", level + "resnets." + number);
  if (depth > 0) add_attention(all, theirs + ".1", level + "attentions." + number, depth);
}

/// Every layer of the UNet. Latent diffusion numbers all steps of a side in one row; a downsampler is a step of its own, an upsampler the
/// last part of a step.
Pairs layer_pairs(const Config& c) {
  auto all = kOuter;
  int64_t step = 1;
  for (size_t i = 0; i < c.down_depths.size(); ++i) {
    auto level = "down_blocks." + std::to_string(i) + ".";
    for (size_t j = 0; j < c.down_depths[i].size(); ++j)
      add_step(all, "input_blocks." + std::to_string(step++), level, j, c.down_depths[i][j]);
    if (i + 1 < c.down_depths.size()) all.emplace_back("input_blocks." + std::to_string(step++) + ".0.op", level + "downsamplers.0.conv");
  }
  add_resnet(all, "middle_block.0", "mid_block.resnets.0");
  add_attention(all, "middle_block.1", "mid_block.attentions.0", c.mid_depth);
  add_resnet(all, "middle_block.2", "mid_block.resnets.1");
  step = 0;
  for (size_t i = 0; i < c.up_depths.size(); ++i) {
    auto level = "up_blocks." + std::to_string(i) + ".";
    for (size_t j = 0; j < c.up_depths[i].size(); ++j)
      add_step(all, "output_blocks." + std::to_string(step++), level, j, c.up_depths[i][j]);
    if (i + 1 < c.up_depths.size() && !c.up_depths[i].empty()) {
      auto place = c.up_depths[i].back() > 0 ? ".2.conv" : ".1.conv";
      all.emplace_back("output_blocks." + std::to_string(step - 1) + place, level + "upsamplers.0.conv");
    }
  }
  return all;
}

int64_t depth_at(const Shapes& shapes, const std::string& step) {
  int64_t depth = 0;
  while (any_below(shapes, step + ".1.transformer_blocks." + std::to_string(depth) + ".")) ++depth;
  return depth;
}

/// The depths of every level, told from latent diffusion's names.
Config depths_of(const Shapes& shapes) {
  Config c;
  c.down_depths.assign(1, {});
  for (int64_t i = 1; any_below(shapes, "input_blocks." + std::to_string(i) + "."); ++i) {
    auto step = "input_blocks." + std::to_string(i);
    if (shapes.contains(step + ".0.op.weight")) c.down_depths.emplace_back();
    else c.down_depths.back().push_back(depth_at(shapes, step));
  }
  c.mid_depth = depth_at(shapes, "middle_block");
  c.up_depths.assign(1, {});
  for (int64_t i = 0; any_below(shapes, "output_blocks." + std::to_string(i) + "."); ++i) {
    auto step = "output_blocks." + std::to_string(i);
    c.up_depths.back().push_back(depth_at(shapes, step));
    if (shapes.contains(step + ".1.conv.weight") || shapes.contains(step + ".2.conv.weight")) c.up_depths.emplace_back();
  }
  return c;
}

const std::vector<std::string> kClipMarks{"text_model.embeddings.token_embedding.weight", "embeddings.token_embedding.weight"};
const std::string kOpenClipMark = "transformer.resblocks.0.attn.in_proj_weight";

/// Tells whether the file of one text encoder holds the second one.
bool is_second(const io::TensorSource& encoder) {
  for (const auto& mark : kClipMarks) {
    if (!encoder.contains(mark)) continue;
    const auto& shape = encoder.info(mark).shape;
    return encoder.contains("text_projection.weight") && !shape.empty() && shape.back() != 768;
  }
  return true;
}

ComponentTensors clip_part(const io::TensorSource& encoder, text::Projection projection) {
  auto tensors = text::clip_tensors(encoder, projection);
  return {tensors, text::clip_keys(tensors)};
}

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace

io::KeyMap ldm_keys(const Config& config) {
  std::vector<io::KeyRule> rules;
  for (const auto& [theirs, ours] : layer_pairs(config)) {
    for (const char* part : {".weight", ".bias"}) rules.push_back({theirs + part, {ours + part}});
  }
  return io::KeyMap(rules);
}

std::optional<ComponentTensors> unet_part(const io::TensorSource& file) {
  const std::string ours = "down_blocks.0.resnets.0.time_emb_proj.weight", theirs = "input_blocks.0.0.weight";
  auto found = below_first(file, kDenoiserPrefixes, {ours, theirs});
  if (!found) return std::nullopt;
  if (found->contains(ours)) return ComponentTensors{*found, {}};
  return ComponentTensors{*found, ldm_keys(depths_of(found->shapes()))};
}

std::optional<ComponentTensors> vae_part(const io::TensorSource& file) {
  auto found = below_first(file, {"", "first_stage_model.", "vae."},
                           {"decoder.up_blocks.0.resnets.0.conv1.weight", "decoder.up.0.block.0.norm1.weight"});
  if (!found) return std::nullopt;
  // A whole checkpoint below first_stage_model keeps a loss and counters there in some files.
  auto tensors = found->renamed([](const std::string& name) {
    for (const char* part : {"encoder.", "decoder.", "quant_conv.", "post_quant_conv."}) {
      if (name.starts_with(part)) return name;
    }
    return std::string();
  });
  return ComponentTensors{tensors, vae::kl_keys(tensors)};
}

std::optional<ComponentTensors> text_encoder_part(const io::TensorSource& file) {
  const std::vector<std::string> prefixes{"conditioner.embedders.0.transformer.", "cond_stage_model.transformer.",
                                          "text_encoders.clip_l.transformer.", "text_encoder."};
  if (auto found = below_first(file, prefixes, kClipMarks)) return clip_part(*found, text::Projection::leave_out);
  auto alone = below_first(file, {""}, kClipMarks);
  if (!alone || is_second(*alone)) return std::nullopt;
  return clip_part(*alone, text::Projection::leave_out);
}

std::optional<ComponentTensors> text_encoder_2_part(const io::TensorSource& file) {
  if (auto found = below_first(file, {"conditioner.embedders.1.model.", ""}, {kOpenClipMark}))
    return clip_part(*found, text::Projection::keep);
  auto found =
      below_first(file, {"conditioner.embedders.1.transformer.", "text_encoders.clip_g.transformer.", "text_encoder_2.", ""}, kClipMarks);
  if (!found || !is_second(*found)) return std::nullopt;
  return clip_part(*found, text::Projection::keep);
}

namespace {

/// Returns what diffusers called an attention's layer before it had peft: "….attn1.processor.to_out_lora"; "" for other layers.
std::string processor_name(const std::string& path) {
  for (const char* layer : {"to_q", "to_k", "to_v", "to_out.0"}) {
    auto ending = std::string(".") + layer;
    if (path.ends_with(ending))
      return path.substr(0, path.size() - ending.size()) + ".processor." + ending.substr(1, ending.find('.', 1) - 1) + "_lora";
  }
  return "";
}

}  // namespace

Layers foreign_unet_layers(const Config& config) {
  Layers table;
  for (const auto& [theirs, ours] : layer_pairs(config)) {
    table[theirs] = {ours};
    table["unet." + ours] = {ours};
    table["lora_unet_" + underscored(theirs)] = {ours};
    table["lora_unet_" + underscored(ours)] = {ours};
    if (auto old = processor_name(ours); !old.empty()) table[old] = table["unet." + old] = {ours};
  }
  return table;
}

std::map<std::string, Layers> written_unet_layers(const Config& config) {
  std::map<std::string, Layers> written;
  for (const auto& [theirs, ours] : layer_pairs(config)) {
    written["comfyui"]["diffusion_model." + theirs] = {ours};
    if (has_added_embedding(config)) written["kohya"]["lora_unet_" + underscored(theirs)] = {ours};
  }
  return written;
}

Layers foreign_text_layers(int64_t num_layers, bool second) {
  static const std::vector<std::string> kLayers{"self_attn.q_proj",   "self_attn.k_proj", "self_attn.v_proj",
                                                "self_attn.out_proj", "mlp.fc1",          "mlp.fc2"};
  const auto dotted = second ? std::vector<std::string>{"text_encoder_2.", "text_encoders.clip_g.transformer."}
                             : std::vector<std::string>{"text_encoder.", "text_encoders.clip_l.transformer."};
  const std::vector<std::string> flat = second ? std::vector<std::string>{"lora_te2_"} : std::vector<std::string>{"lora_te1_", "lora_te_"};
  Layers table;
  for (int64_t i = 0; i < num_layers; ++i) {
    for (const auto& layer : kLayers) {
      auto ours = "encoder.layers." + std::to_string(i) + "." + layer, theirs = "text_model." + ours;
      for (const auto& prefix : dotted) table[prefix + theirs] = table[prefix + ours] = {ours};
      for (const auto& prefix : flat) table[prefix + underscored(theirs)] = {ours};
    }
  }
  auto projection = std::string("text_projection");
  if (second) table["lora_te2_text_projection"] = {projection};
  for (const auto& prefix : dotted) table[prefix + projection] = {projection};
  return table;
}

}  // namespace burnish::models::stable_diffusion
