#include "models/families/wan/keys.h"

#include <optional>

#include "models/parts/layer_tables.h"
#include "models/parts/mmdit_names.h"

namespace burnish::models::wan {

namespace {

// Facts: Wan-Video's wan/modules/model.py and diffusers' convert_wan_to_diffusers.py.
const RenamedLayers kInBlocks{
    {"self_attn.q", {"attn1.to_q"}},
    {"self_attn.k", {"attn1.to_k"}},
    {"self_attn.v", {"attn1.to_v"}},
    {"self_attn.o", {"attn1.to_out.0"}},
    {"cross_attn.q", {"attn2.to_q"}},
    {"cross_attn.k", {"attn2.to_k"}},
    {"cross_attn.v", {"attn2.to_v"}},
    {"cross_attn.o", {"attn2.to_out.0"}},
    {"cross_attn.k_img", {"attn2.add_k_proj"}},
    {"cross_attn.v_img", {"attn2.add_v_proj"}},
    {"ffn.0", {"ffn.net.0.proj"}},
    {"ffn.2", {"ffn.net.2"}},
};
/// The norm before attention to texts is the third of the original, and the second with parameters here.
const RenamedLayers kNormsInBlocks{
    {"norm3", {"norm2"}},
    {"self_attn.norm_q", {"attn1.norm_q"}},
    {"self_attn.norm_k", {"attn1.norm_k"}},
    {"cross_attn.norm_q", {"attn2.norm_q"}},
    {"cross_attn.norm_k", {"attn2.norm_k"}},
    {"cross_attn.norm_k_img", {"attn2.norm_added_k"}},
};
/// The names that diffusers gives them in blocks of a driven transformer.
const RenamedLayers kInDrivenBlocks{
    {"self_attn.to_q", {"attn1.to_q"}},
    {"self_attn.to_k", {"attn1.to_k"}},
    {"self_attn.to_v", {"attn1.to_v"}},
    {"self_attn.to_out.0", {"attn1.to_out.0"}},
    {"cross_attn.to_q", {"attn2.to_q"}},
    {"cross_attn.to_k", {"attn2.to_k"}},
    {"cross_attn.to_v", {"attn2.to_v"}},
    {"cross_attn.to_out.0", {"attn2.to_out.0"}},
    {"cross_attn.add_k_proj", {"attn2.add_k_proj"}},
    {"cross_attn.add_v_proj", {"attn2.add_v_proj"}},
    {"ffn.0", {"ffn.net.0.proj"}},
    {"ffn.2", {"ffn.net.2"}},
};
const RenamedLayers kNormsInDrivenBlocks{
    {"norm3", {"norm2"}},
    {"self_attn.norm_q", {"attn1.norm_q"}},
    {"self_attn.norm_k", {"attn1.norm_k"}},
    {"cross_attn.norm_q", {"attn2.norm_q"}},
    {"cross_attn.norm_k", {"attn2.norm_k"}},
    {"cross_attn.norm_added_k", {"attn2.norm_added_k"}},
};
/// What stands in the original names of a driven transformer's layers behind the block's number.
const std::string kOfDrivenBlock = "block.";
/// Layers that blocks of VACE have beside those.
const RenamedLayers kInHintBlocks{{"before_proj", {"proj_in"}}, {"after_proj", {"proj_out"}}};
const RenamedLayers kOutside{
    {"patch_embedding", {"patch_embedding"}},
    {"patch_embedding_pose", {"patch_embedding_pose"}},
    {"patch_embedding_mask", {"patch_embedding_mask"}},
    {"text_embedding.0", {"condition_embedder.text_embedder.linear_1"}},
    {"text_embedding.2", {"condition_embedder.text_embedder.linear_2"}},
    {"time_embedding.0", {"condition_embedder.time_embedder.linear_1"}},
    {"time_embedding.2", {"condition_embedder.time_embedder.linear_2"}},
    {"time_projection.1", {"condition_embedder.time_proj"}},
    {"img_emb.proj.1", {"condition_embedder.image_embedder.ff.net.0.proj"}},
    {"img_emb.proj.3", {"condition_embedder.image_embedder.ff.net.2"}},
    {"head.head", {"proj_out"}},
    {"ref_conv", {"ref_conv"}},
    {"control_adapter.conv", {"control_adapter.conv"}},
    {"control_adapter.residual_blocks.0.conv1", {"control_adapter.residual_blocks.0.conv1"}},
    {"control_adapter.residual_blocks.0.conv2", {"control_adapter.residual_blocks.0.conv2"}},
};
const RenamedLayers kNormsOutside{
    {"img_emb.proj.0", {"condition_embedder.image_embedder.norm1"}},
    {"img_emb.proj.4", {"condition_embedder.image_embedder.norm2"}},
};
/// Layers of blocks that hear, and those outside, which files call as we do; nodes of ComfyUI have a word before the latter.
const RenamedLayers kInTalk{{"audio_cross_attn.q_linear", {"audio_cross_attn.q_linear"}},
                            {"audio_cross_attn.kv_linear", {"audio_cross_attn.kv_linear"}},
                            {"audio_cross_attn.proj", {"audio_cross_attn.proj"}}};
const RenamedLayers kNormsInTalk{{"norm_x", {"norm_x"}}};
const RenamedLayers kOfTalk{{"audio_proj.proj1", {"audio_proj.proj1"}},
                            {"audio_proj.proj1_vf", {"audio_proj.proj1_vf"}},
                            {"audio_proj.proj2", {"audio_proj.proj2"}},
                            {"audio_proj.proj3", {"audio_proj.proj3"}}};
const std::string kWordOfNodes = "diffusion_model.multitalk_";
const RenamedLayers kNormsOfTalk{{"audio_proj.norm", {"audio_proj.norm"}}};
/// Layers of Wan-Animate's module, whose convolutions of a face have names by their number.
const RenamedLayers kInFusers{{"linear1_q", {"to_q"}}, {"linear1_kv", {"to_k", "to_v"}}, {"linear2", {"to_out"}}};
const RenamedLayers kNormsInFusers{{"q_norm", {"norm_q"}}, {"k_norm", {"norm_k"}}};
const RenamedLayers kOfFaces{{"pose_patch_embedding", {"pose_patch_embedding"}},
                             {"face_encoder.conv1_local.conv", {"face_encoder.conv1_local"}},
                             {"face_encoder.conv2.conv", {"face_encoder.conv2"}},
                             {"face_encoder.conv3.conv", {"face_encoder.conv3"}},
                             {"face_encoder.out_proj", {"face_encoder.out_proj"}}};

/// Tables of parameters, which stand bare in a file.
const RenamedLayers kTablesInBlocks{{"modulation", {"scale_shift_table"}}};
const RenamedLayers kTablesOutside{{"head.modulation", {"scale_shift_table"}},
                                   {"img_emb.emb_pos", {"condition_embedder.image_embedder.pos_embed"}}};
/// Layers that only Wan-S2V's transformer has.
const std::string kInjectors = "audio_injector.injector.", kTheirModulations = "audio_injector.injector_adain_layers.";
const RenamedLayers kInInjectors{{"q", {"to_q"}}, {"k", {"to_k"}}, {"v", {"to_v"}}, {"o", {"to_out.0"}}};
const RenamedLayers kNormsInInjectors{{"norm_q", {"norm_q"}}, {"norm_k", {"norm_k"}}};
const RenamedLayers kModulationOfInjector{{"linear", {"adain.linear"}}};
const RenamedLayers kOfSpeech{{"cond_encoder", {"cond_encoder"}},
                              {"casual_audio_encoder.encoder.conv1_local.conv", {"casual_audio_encoder.encoder.conv1_local"}},
                              {"casual_audio_encoder.encoder.conv1_global.conv", {"casual_audio_encoder.encoder.conv1_global"}},
                              {"casual_audio_encoder.encoder.conv2.conv", {"casual_audio_encoder.encoder.conv2"}},
                              {"casual_audio_encoder.encoder.conv3.conv", {"casual_audio_encoder.encoder.conv3"}},
                              {"casual_audio_encoder.encoder.final_linear", {"casual_audio_encoder.encoder.final_linear"}}};

/// The layers with "block." before their names, where those of a driven transformer are meant.
RenamedLayers within(const Config& config, const RenamedLayers& layers) {
  auto all = layers;
  if (config.extras.driving.is_read) {
    for (auto& layer : all) layer.theirs.insert(0, kOfDrivenBlock);
  }
  return all;
}

RenamedLayers all_layers(const Config& config) {
  auto all = kOutside;
  add_blocks(all, within(config, kInBlocks), "blocks.", "blocks.", config.num_layers);
  if (config.extras.talk.is_there()) {
    add_blocks(all, kInTalk, "blocks.", "blocks.", config.num_layers);
    all.insert(all.end(), kOfTalk.begin(), kOfTalk.end());
  }
  if (!config.extras.speech.is_there()) return all;
  const auto count = std::ssize(config.extras.speech.layers);
  add_blocks(all, kInInjectors, kInjectors, kInjectors, count);
  add_blocks(all, kModulationOfInjector, kTheirModulations, kInjectors, count);
  all.insert(all.end(), kOfSpeech.begin(), kOfSpeech.end());
  return all;
}

/// Returns the layers of a driven transformer in diffusers' names.
RenamedLayers all_driven_layers(const Config& config) {
  auto all = kOutside;
  add_blocks(all, kInDrivenBlocks, "blocks.", "blocks.", config.num_layers);
  return all;
}

RenamedLayers all_layers(const VaceConfig& config) {
  RenamedLayers all{{"vace_patch_embedding", {"vace_patch_embedding"}}};
  add_blocks(all, kInBlocks, "vace_blocks.", "vace_blocks.", config.num_blocks);
  add_blocks(all, {kInHintBlocks[0]}, "vace_blocks.", "vace_blocks.", 1);
  add_blocks(all, {kInHintBlocks[1]}, "vace_blocks.", "vace_blocks.", config.num_blocks);
  return all;
}

RenamedLayers all_layers(const AnimateConfig& config) {
  auto all = kOfFaces;
  add_blocks(all, kInFusers, "face_adapter.fuser_blocks.", "face_adapter.", config.num_fusers);
  for (int64_t i = 0; i < config.num_linears; ++i)
    all.push_back({"motion_encoder.enc.fc." + std::to_string(i), {"motion_encoder.motion_network." + std::to_string(i)}});
  return all;
}

RenamedLayers all_norms(const AnimateConfig& config) {
  RenamedLayers all;
  add_blocks(all, kNormsInFusers, "face_adapter.fuser_blocks.", "face_adapter.", config.num_fusers);
  return all;
}

/// Norms and tables.
RenamedLayers all_norms(const Config& config) {
  auto all = kNormsOutside;
  all.insert(all.end(), kTablesOutside.begin(), kTablesOutside.end());
  for (const auto* some : {&kNormsInBlocks, &kTablesInBlocks})
    add_blocks(all, within(config, *some), "blocks.", "blocks.", config.num_layers);
  add_blocks(all, kNormsInInjectors, kInjectors, kInjectors, std::ssize(config.extras.speech.layers));
  if (!config.extras.talk.is_there()) return all;
  add_blocks(all, kNormsInTalk, "blocks.", "blocks.", config.num_layers);
  all.insert(all.end(), kNormsOfTalk.begin(), kNormsOfTalk.end());
  return all;
}

RenamedLayers all_norms(const VaceConfig& config) {
  RenamedLayers all;
  for (const auto* some : {&kNormsInBlocks, &kTablesInBlocks}) add_blocks(all, *some, "vace_blocks.", "vace_blocks.", config.num_blocks);
  return all;
}

template <class AnyConfig>
LayerTable foreign_of(const AnyConfig& config, const std::string& in_both) {
  LayerTable table;
  for (const auto& layers : {all_layers(config), all_norms(config)}) {
    for (const auto& layer : layers) {
      table[layer.theirs] = table["diffusion_model." + layer.theirs] = table[in_both + layer.theirs] = layer.ours;
      table["lora_unet_" + with_underscores(layer.theirs)] = layer.ours;
    }
  }
  return table;
}

void add_block_rules(std::vector<io::KeyRule>& rules, const RenamedLayers& layers, const RenamedLayers& norms, const std::string& theirs,
                     const std::string& ours) {
  for (const auto* some : {&layers, &norms}) add_rules(rules, *some, theirs, ours);
  for (const auto& table : kTablesInBlocks) rules.push_back({theirs + table.theirs, {ours + table.ours[0]}});
}

io::KeyMap with_rules_outside(std::vector<io::KeyRule> rules) {
  for (const auto* layers : {&kOutside, &kNormsOutside}) add_rules(rules, *layers);
  for (const auto& table : kTablesOutside) rules.push_back({table.theirs, table.ours});
  return io::KeyMap(rules);
}

/// The original name of a path that ends in one of these layers, and their names before; none where it does not.
std::optional<std::string> renamed_end(const std::string& path, const RenamedLayers& layers, const std::string& before = "") {
  for (const auto& layer : layers) {
    const auto& ours = layer.ours[0];
    if (path.ends_with("." + ours)) return path.substr(0, path.size() - ours.size()) + before + layer.theirs;
  }
  return std::nullopt;
}

/// Returns the names of a path outside of the blocks.
std::vector<std::string> names_outside(const std::string& path) {
  for (const auto& layer : kOutside) {
    if (path == layer.ours[0]) return {path, layer.theirs};
  }
  return {path};
}

template <class AnyConfig>
std::map<std::string, LayerTable> written_of(const AnyConfig& config) {
  const auto layers = all_layers(config);
  auto written = written_in(layers);
  for (const auto& layer : layers) written["diffsynth"][layer.theirs] = layer.ours;
  for (const auto& norm : all_norms(config)) written["comfyui"]["diffusion_model." + norm.theirs] = norm.ours;
  return written;
}

}  // namespace

io::KeyMap original_keys() {
  std::vector<io::KeyRule> rules;
  for (const char* blocks : {"blocks.{}.", "vace_blocks.{}."}) add_block_rules(rules, kInBlocks, kNormsInBlocks, blocks, blocks);
  add_rules(rules, kInHintBlocks, "vace_blocks.{}.", "vace_blocks.{}.");
  for (const auto* layers : {&kInInjectors, &kNormsInInjectors}) add_rules(rules, *layers, kInjectors + "{}.", kInjectors + "{}.");
  add_rules(rules, kModulationOfInjector, kTheirModulations + "{}.", kInjectors + "{}.");
  add_rules(rules, kOfSpeech);
  return with_rules_outside(std::move(rules));
}

io::KeyMap original_driven_keys() {
  std::vector<io::KeyRule> rules;
  add_block_rules(rules, kInBlocks, kNormsInBlocks, "blocks.{}." + kOfDrivenBlock, "blocks.{}.");
  return with_rules_outside(std::move(rules));
}

io::KeyMap diffusers_driven_keys() {
  std::vector<io::KeyRule> rules;
  add_block_rules(rules, kInDrivenBlocks, kNormsInDrivenBlocks, "blocks.{}.", "blocks.{}.");
  return with_rules_outside(std::move(rules));
}

io::KeyMap animate_keys(int64_t num_halvings) {
  std::vector<io::KeyRule> rules;
  const std::string theirs = "motion_encoder.enc.net_app.convs.", ours = "motion_encoder.";
  auto conv = [&](const std::string& from, int64_t number, const std::string& to, bool has_bend) {
    rules.push_back({theirs + from + std::to_string(number) + ".weight", {ours + to + ".weight"}});
    if (!has_bend) return;
    rules.push_back({theirs + from + std::to_string(number + 1) + ".bias", {ours + to + ".act_fn.bias"}, io::KeyRule::Op::channels});
  };
  conv("0.", 0, "conv_in", true);
  for (int64_t i = 0; i < num_halvings; ++i) {
    const auto from = std::to_string(i + 1) + ".", to = "res_blocks." + std::to_string(i) + ".";
    conv(from + "conv1.", 0, to + "conv1", true);
    conv(from + "conv2.", 1, to + "conv2", true);
    conv(from + "skip.", 1, to + "conv_skip", false);
  }
  conv("", num_halvings + 1, "conv_out", false);
  add_rules(rules, {{"enc.fc.{}", {"motion_network.{}"}}}, "motion_encoder.", "motion_encoder.");
  rules.push_back({"motion_encoder.dec.direction.weight", {"motion_encoder.motion_synthesis_weight"}});
  for (const auto* layers : {&kInFusers, &kNormsInFusers}) add_rules(rules, *layers, "face_adapter.fuser_blocks.{}.", "face_adapter.{}.");
  add_rules(rules, kOfFaces);
  return io::KeyMap(rules);
}

LayerTable foreign_layers(const Config& config, const std::string& in_both) {
  auto table = foreign_of(config, in_both);
  if (config.extras.talk.is_there()) {
    for (const auto& layer : kOfTalk) table[kWordOfNodes + layer.theirs] = layer.ours;
  }
  if (!config.extras.driving.is_read) return table;
  auto as_usual = config;
  as_usual.extras.driving.is_read = false;
  table.merge(foreign_of(as_usual, in_both));
  for (const auto& layer : all_driven_layers(config)) {
    for (const char* before : {"", "transformer.", "diffusion_model."}) table[before + layer.theirs] = layer.ours;
  }
  return table;
}
LayerTable foreign_layers(const VaceConfig& config, const std::string& in_both) { return foreign_of(config, in_both); }
LayerTable foreign_layers(const AnimateConfig& config, const std::string& in_both) { return foreign_of(config, in_both); }

std::map<std::string, LayerTable> written_layers(const Config& config) {
  auto written = written_of(config);
  if (!config.extras.driving.is_read) return written;
  for (const auto& layer : all_driven_layers(config)) {
    written["diffusers"]["transformer." + layer.theirs] = layer.ours;
    written["peft"]["base_model.model." + layer.theirs] = layer.ours;
  }
  return written;
}
std::map<std::string, LayerTable> written_layers(const VaceConfig& config) { return written_of(config); }
std::map<std::string, LayerTable> written_layers(const AnimateConfig& config) { return written_of(config); }

std::vector<std::string> high_precision_layers(const Config& config) {
  std::vector<std::string> layers{"patch_embedding", "condition_embedder\\..*", "proj_out", "ref_conv", "control_adapter\\..*"};
  if (config.extras.speech.is_there()) layers.emplace_back("casual_audio_encoder\\..*");
  if (config.extras.talk.is_there()) layers.emplace_back("audio_proj\\..*");
  if (config.extras.area_channels > 0) layers.insert(layers.end(), {"patch_embedding_pose", "patch_embedding_mask"});
  return layers;
}

std::vector<std::string> target_names(const std::string& path) {
  if (auto name = path.starts_with(kInjectors) ? renamed_end(path, kInInjectors) : std::nullopt) return {path, *name};
  for (const auto* layers : {&kInBlocks, &kInHintBlocks}) {
    if (auto name = renamed_end(path, *layers)) return {path, *name};
  }
  return names_outside(path);
}

std::vector<std::string> driven_target_names(const std::string& path) {
  auto original = renamed_end(path, kInBlocks, kOfDrivenBlock), of_diffusers = renamed_end(path, kInDrivenBlocks);
  if (original && of_diffusers) return {path, *original, *of_diffusers};
  return names_outside(path);
}

}  // namespace burnish::models::wan
