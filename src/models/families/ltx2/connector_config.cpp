#include "models/families/ltx2/connector_config.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "models/files/config_values.h"
#include "models/parts/layer_tables.h"

namespace burnish::models::ltx2 {

namespace {

constexpr const char* kConnectorsName = "text connectors";
constexpr const char *kSharedProjection = "text_proj_in.weight", *kFrameProjection = "video_text_proj_in.weight";
constexpr const char* kRegistersName = "learnable_registers";
const std::string kInFile = "text_embedding_projection.";

/// A stream by the word that it has in diffusers' names.
struct ConnectorStream {
  std::string word;
  ConnectorSizes ConnectorsConfig::*sizes;
  int64_t head_dim;  ///< of 2.3 and 2.5, by which heads are counted that no tensor tells
};
const ConnectorStream kConnectorStreams[] = {{"video_", &ConnectorsConfig::frames, 128}, {"audio_", &ConnectorsConfig::sound, 64}};

/// The layers of a block.
const RenamedLayers& block_layers() {
  static const RenamedLayers kLayers{{"attn1.to_q", {"attn1.to_q"}},
                                     {"attn1.to_k", {"attn1.to_k"}},
                                     {"attn1.to_v", {"attn1.to_v"}},
                                     {"attn1.to_out.0", {"attn1.to_out.0"}},
                                     {"attn1.to_gate_logits", {"attn1.to_gate_logits"}},
                                     {"ff.net.0.proj", {"ff.net.0.proj"}},
                                     {"ff.net.2", {"ff.net.2"}}};
  return kLayers;
}

const RenamedLayers& projection_layers() {
  static const RenamedLayers kLayers{{kInFile + "aggregate_embed", {"text_proj_in"}},
                                     {kInFile + "video_aggregate_embed", {"video_text_proj_in"}},
                                     {kInFile + "audio_aggregate_embed", {"audio_text_proj_in"}}};
  return kLayers;
}

/// Reads the sizes of a stream's connector where its tensors are there, else from the width of its features.
void read_stream(ConnectorsConfig& c, const ConnectorStream& stream, const nlohmann::json& json, const io::Shapes& shapes) {
  auto& sizes = c.*stream.sizes;
  const auto connector = stream.word + "connector.", attention = connector + "transformer_blocks.0.attn1.";
  const bool is_there = shapes.contains(connector + kRegistersName);
  auto width = sizes.width();
  if (is_there) {
    sizes.num_registers = io::side_of(shapes, connector + kRegistersName, 0, kConnectorsName);
    width = io::side_of(shapes, connector + kRegistersName, 1, kConnectorsName);
    sizes.num_blocks = io::count_of(shapes, connector + "transformer_blocks.{}.");
  } else if (c.is_shared) {
    width = c.state_width;
  } else if (shapes.contains(kFrameProjection)) {
    width = io::side_of(shapes, stream.word + "text_proj_in.weight", 0, kConnectorsName);
  }
  const auto key = stream.word + "connector_";
  if (c.has_gates && is_there) sizes.num_heads = io::side_of(shapes, attention + "to_gate_logits.weight", 0, kConnectorsName);
  else sizes.num_heads = std::max<int64_t>(width / (c.is_shared ? 128 : stream.head_dim), 1);
  agree_on(json, (key + "num_attention_heads").c_str(), sizes.num_heads, c.has_gates && is_there, kConnectorsName);
  if (sizes.num_heads < 1 || width % (2 * sizes.num_heads) != 0)
    data_error("models", "the text connectors have {} heads in {} numbers of a token, which do not fit together; their files are damaged",
               sizes.num_heads, width);
  sizes.head_dim = width / sizes.num_heads;
  agree_on(json, (key + "attention_head_dim").c_str(), sizes.head_dim, true, kConnectorsName);
  agree_on(json, (key + "num_layers").c_str(), sizes.num_blocks, is_there, kConnectorsName);
  agree_on(json, (key + "num_learnable_registers").c_str(), sizes.num_registers, is_there, kConnectorsName);
}

/// Reads how many states of what width are projected.
void read_projection(ConnectorsConfig& c, const nlohmann::json& json, const io::Shapes& shapes) {
  const auto* projection = c.is_shared ? kSharedProjection : kFrameProjection;
  const bool is_stated = io::take(json, "caption_channels", c.state_width, kConnectorsName);
  io::take(json, "text_proj_in_factor", c.num_states, kConnectorsName);
  if (!shapes.contains(projection)) return;
  const auto all = io::side_of(shapes, projection, 1, kConnectorsName);
  if (c.is_shared) c.state_width = io::side_of(shapes, projection, 0, kConnectorsName);
  else if (!is_stated && all % c.state_width != 0) c.state_width = all;
  if (c.state_width < 1 || all % c.state_width != 0)
    data_error("models", "the text connectors read {} numbers of a token, which are no states of a text encoder {} wide", all,
               c.state_width);
  c.num_states = all / c.state_width;
  io::agree(json, "caption_channels", c.state_width, kConnectorsName);
  io::agree(json, "text_proj_in_factor", c.num_states, kConnectorsName);
  c.has_biases = shapes.contains(c.is_shared ? "text_proj_in.bias" : "video_text_proj_in.bias");
}

/// Returns the original name of a tensor, whatever its file puts before it; "" where it is none of the connectors'.
std::string original_name(const std::string& name) {
  static const std::map<std::string, std::string> kDiffsynth{{"feature_extractor.", kInFile},
                                                             {"connectors.video_connector.", "video_embeddings_connector."},
                                                             {"connectors.audio_connector.", "audio_embeddings_connector."}};
  for (const auto& [theirs, original] : kDiffsynth) {
    if (name.starts_with(theirs)) return original + name.substr(theirs.size());
  }
  for (const auto& mark : {kInFile, std::string("video_embeddings_connector."), std::string("audio_embeddings_connector.")}) {
    const auto place = name.find(mark);
    if (place == 0 || (place != name.npos && name[place - 1] == '.')) return name.substr(place);
  }
  return "";
}

}  // namespace

ConnectorsConfig connectors_20() {
  constexpr ConnectorSizes kSizes{.num_heads = 30, .head_dim = 128, .num_blocks = 2};
  return {.is_shared = true, .has_biases = false, .has_gates = false, .frames = kSizes, .sound = kSizes};
}

ConnectorsConfig connectors_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  const bool has_connector = shapes.contains("video_connector.learnable_registers");
  const bool has_gates = shapes.contains("video_connector.transformer_blocks.0.attn1.to_gate_logits.weight");
  const bool is_shared = shapes.contains(kSharedProjection) || (!shapes.contains(kFrameProjection) && has_connector && !has_gates);
  auto c = is_shared ? connectors_20() : ConnectorsConfig();
  if (has_connector) c.has_gates = has_gates;
  read_projection(c, config_json, shapes);
  io::agree(config_json, "per_modality_projections", !c.is_shared, kConnectorsName);
  io::agree(config_json, "video_gated_attn", c.has_gates, kConnectorsName);
  io::agree(config_json, "audio_gated_attn", c.has_gates, kConnectorsName);
  for (const auto& stream : kConnectorStreams) read_stream(c, stream, config_json, shapes);
  io::take(config_json, "connector_rope_base_seq_len", c.num_places, kConnectorsName);
  io::take(config_json, "rope_theta", c.theta, kConnectorsName);
  io::check_above_0(static_cast<double>(c.num_places), "connector_rope_base_seq_len", kConnectorsName);
  io::check_above_0(c.theta, "rope_theta", kConnectorsName);
  std::string turn = "split";
  io::take(config_json, "rope_type", turn, kConnectorsName);
  if (turn != "split")
    data_error("models",
               "the config.json of the text connectors says rope_type = '{}'; 'split' was expected, as all published ones have it", turn);
  return c;
}

ConnectorsConfig with_states(ConnectorsConfig config, int64_t width, int64_t num_states) {
  if (config.state_width * config.num_states != width * num_states || (config.is_shared && config.state_width != width))
    data_error("models",
               "the text connectors read {} numbers of a token, and the text encoder gives {} states of {}; they belong to different "
               "models",
               config.state_width * config.num_states, num_states, width);
  config.state_width = width;
  config.num_states = num_states;
  return config;
}

io::KeyMap connector_keys(const std::string& before) {
  std::vector<io::KeyRule> rules;
  add_rules(rules, projection_layers());
  for (const auto& [word, sizes, head_dim] : kConnectorStreams) {
    const auto theirs = before + word + "embeddings_connector.", ours = word + "connector.";
    const auto their_block = theirs + "transformer_1d_blocks.{}.", our_block = ours + "transformer_blocks.{}.";
    rules.push_back({theirs + kRegistersName, {ours + kRegistersName}});
    add_rules(rules, block_layers(), their_block, our_block);
    for (const std::string norm : {"q", "k"})
      rules.push_back({their_block + "attn1." + norm + "_norm.weight", {our_block + "attn1.norm_" + norm + ".weight"}});
  }
  return io::KeyMap(rules);
}

ComponentNames connector_names(const ConnectorsConfig& config) {
  std::vector<NamedStack> stacks;
  for (const auto& [word, sizes, head_dim] : kConnectorStreams)
    stacks.push_back(
        {word + "embeddings_connector.transformer_1d_blocks.", word + "connector.transformer_blocks.", (config.*sizes).num_blocks});
  auto outside = projection_layers();
  std::erase_if(outside, [&](const RenamedLayer& layer) { return (layer.ours[0] == "text_proj_in") != config.is_shared; });
  const auto layers = with_blocks(outside, block_layers(), stacks);
  auto names = plain_names("connectors");
  names.lora_targets = R"(\w+_connector\.transformer_blocks\.\d+\.attn1\.(to_[qkv]|to_out\.0))";
  names.high_precision = {".*text_proj_in", ".*\\.to_gate_logits"};
  names.foreign_layers = named_by(layers);
  names.written = written_in(layers);
  // Files of the authors have the projection beside the transformer, not in it.
  for (const auto& [theirs, ours] : outside) {
    names.written["comfyui"].erase("diffusion_model." + theirs);
    names.written["comfyui"][theirs] = ours;
  }
  names.single_file = {"", connector_keys("model.diffusion_model.")};
  return names;
}

Source find_connectors(const ModelFiles& files) {
  Source found;
  for (const auto& entry : files.entries) {
    if (!entry.tensors) continue;
    if (entry.tensors->contains(kSharedProjection) || entry.tensors->contains(kFrameProjection)) return {&entry, *entry.tensors, {}};
    const auto names = entry.tensors->names();
    if (std::ranges::none_of(names, [](const std::string& name) { return !original_name(name).empty(); })) continue;
    auto own = entry.tensors->renamed(original_name);
    if (found.entry == nullptr) found = {&entry, own, connector_keys(), true};
    else found.tensors = found.tensors->joined(own);
  }
  return found;
}

}  // namespace burnish::models::ltx2
