#include "models/families/ltx2/config.h"

#include <nlohmann/json.hpp>
#include <string>

#include "models/files/config_values.h"

namespace burnish::models::ltx2 {

namespace {

constexpr const char* kTransformer = "transformer";

constexpr Number<Config> kNumbers[] = {
    {&Config::num_layers, "transformer_blocks.{}.attn1.norm_q.weight", 0, "num_layers"},
};
constexpr Number<StreamSizes> kFrameNumbers[] = {
    {&StreamSizes::num_heads, nullptr, 0, "num_attention_heads"},
    {&StreamSizes::head_dim, nullptr, 0, "attention_head_dim"},
    {&StreamSizes::hidden, "transformer_blocks.0.ff.net.0.proj.weight", 0, nullptr},
    {&StreamSizes::channels, "proj_in.weight", 1, "in_channels"},
    {&StreamSizes::caption_width, "transformer_blocks.0.attn2.to_k.weight", 1, "cross_attention_dim"},
};
constexpr Number<StreamSizes> kSoundNumbers[] = {
    {&StreamSizes::num_heads, nullptr, 0, "audio_num_attention_heads"},
    {&StreamSizes::head_dim, nullptr, 0, "audio_attention_head_dim"},
    {&StreamSizes::hidden, "transformer_blocks.0.audio_ff.net.0.proj.weight", 0, nullptr},
    {&StreamSizes::channels, "audio_proj_in.weight", 1, "audio_in_channels"},
    {&StreamSizes::caption_width, "transformer_blocks.0.audio_attn2.to_k.weight", 1, "audio_cross_attention_dim"},
};
constexpr Number<PlaceSizes> kPlaceNumbers[] = {
    {&PlaceSizes::seconds, nullptr, 0, "pos_embed_max_pos"},
    {&PlaceSizes::height, nullptr, 0, "base_height"},
    {&PlaceSizes::width, nullptr, 0, "base_width"},
};

/// Reads how many heads share a stream's width: a gate has a row for each; without gates it is the published number, unless config.json
/// says another.
void read_heads(StreamSizes& sizes, const io::Shapes& shapes, const std::string& width_of, const std::string& gate) {
  const auto width = io::side_of(shapes, width_of, 0, kTransformer);
  if (shapes.contains(gate)) sizes.num_heads = io::side_of(shapes, gate, 0, kTransformer);
  if (sizes.num_heads < 1 || width % sizes.num_heads != 0) sizes.num_heads = 1;
  sizes.head_dim = width / sizes.num_heads;
}

void read_transformer_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  read_tensors(c.frames, kFrameNumbers, shapes);
  read_tensors(c.sound, kSoundNumbers, shapes);
  read_heads(c.frames, shapes, "proj_in.weight", kGateMark);
  read_heads(c.sound, shapes, "audio_proj_in.weight", "transformer_blocks.0.audio_attn1.to_gate_logits.weight");
  c.projected_width = shapes.contains(kProjectionMark) ? io::side_of(shapes, kProjectionMark, 1, kTransformer) : 0;
  c.has_gates = shapes.contains(kGateMark);
  c.modulates_text = shapes.contains("transformer_blocks.0.prompt_scale_shift_table");
  c.has_prompt_time = shapes.contains("prompt_adaln.linear.weight");
  c.has_frame_biases = shapes.contains("transformer_blocks.0.ff.net.0.proj.bias");
  c.marks_first_frame = shapes.contains(kKeyframeMark);
}

/// Reads the heads of a stream whose width tensors say, of which config.json alone may say how it is shared out.
void read_stated_heads(StreamSizes& sizes, const nlohmann::json& json, const char* heads, bool has_gates) {
  const auto width = sizes.width();
  if (has_gates || !io::take(json, heads, sizes.num_heads, kTransformer)) return;
  if (sizes.num_heads < 1 || width % sizes.num_heads != 0)
    data_error("models", "config.json says {} = {}, and a width of {} is not shared out by so many", heads, sizes.num_heads, width);
  sizes.head_dim = width / sizes.num_heads;
}

void read_switches(Config& c, const nlohmann::json& json) {
  bool projects = true;  // as diffusers' class has it where nothing is said
  io::take(json, "use_prompt_embeddings", projects, kTransformer);
  c.projected_width = 0;
  if (projects) {
    c.projected_width = 3840;
    io::take(json, "caption_channels", c.projected_width, kTransformer);
  }
  c.has_gates = c.modulates_text = c.marks_first_frame = false;
  io::take(json, "gated_attn", c.has_gates, kTransformer);
  io::take(json, "cross_attn_mod", c.modulates_text, kTransformer);
  io::take(json, "use_prompt_adaln_single", c.has_prompt_time, kTransformer);
  c.has_prompt_time = c.has_prompt_time && c.modulates_text;
  io::take(json, "ff_bias", c.has_frame_biases, kTransformer);
  io::take(json, "use_keyframes_abs_pos_embedding", c.marks_first_frame, kTransformer);
  c.frames.hidden = 4 * c.frames.width();
  c.sound.hidden = 4 * c.sound.width();
}

void read_transformer_config(Config& c, const nlohmann::json& json, bool tensors) {
  if (tensors) {
    read_stated_heads(c.frames, json, "num_attention_heads", c.has_gates);
    read_stated_heads(c.sound, json, "audio_num_attention_heads", c.has_gates);
  }
  read_keys(c, kNumbers, json, tensors);
  read_keys(c.frames, kFrameNumbers, json, tensors);
  read_keys(c.sound, kSoundNumbers, json, tensors);
  read_keys(c.places, kPlaceNumbers, json, false);
  io::take(json, "rope_theta", c.places.theta, kTransformer);
  if (!tensors) read_switches(c, json);
  agree_on_known(json, "rope_type", std::string("split"));
  agree_on_known(json, "patch_size", int64_t{1});
  agree_on_known(json, "patch_size_t", int64_t{1});
  agree_on_known(json, "causal_offset", int64_t{1});
  agree_on_known(json, "vae_scale_factors", std::vector<int64_t>{8, 32, 32});
  agree_on_known(json, "audio_pos_embed_max_pos", c.places.seconds);
  agree_on_known(json, "timestep_scale_multiplier", int64_t{1000});
  agree_on_known(json, "cross_attn_timestep_scale_multiplier", int64_t{1000});
  agree_on_known(json, "norm_elementwise_affine", false);
}

void check_stream(const StreamSizes& s, const char* what) {
  check_sizes({s.num_heads, s.head_dim, s.hidden, s.channels, s.caption_width, s.width()});
  if (s.head_dim % 2 != 0) data_error("models", "the transformer's heads of {} are {} wide; an even number was expected", what, s.head_dim);
}

void check_transformer(const Config& c) {
  check_stream(c.frames, "frames");
  check_stream(c.sound, "sound");
  check_blocks({c.num_layers});
  check_sizes({c.places.seconds, c.places.height, c.places.width});
  if (c.projected_width > 0) check_sizes({c.projected_width});
  for (const auto* stream : {&c.frames, &c.sound}) {
    if ((c.modulates_text || c.projected_width > 0) && stream->caption_width != stream->width())
      data_error("models",
                 "the transformer's stream of {} is {} wide and reads texts that are {} wide; these are equally wide in all LTX-2",
                 stream == &c.frames ? "frames" : "sound", stream->width(), stream->caption_width);
  }
  // Three axes share out the frequencies of all heads, and one axis those of sound; steps between frequencies need two of each.
  if (c.frames.width() < 12 || c.sound.width() < 4)
    data_error("models", "the transformer's streams are {} and {} wide; 12 and 4 are the least that places are told apart by",
               c.frames.width(), c.sound.width());
  if (!(c.places.theta > 0)) data_error("models", "the transformer's config.json has rope_theta {}, which is above 0", c.places.theta);
}

}  // namespace

Config config_20() { return {.projected_width = 3840, .has_gates = false, .modulates_text = false, .has_prompt_time = false}; }

Config config_25() { return {.has_frame_biases = false, .marks_first_frame = true}; }

const char* version_of(const Config& c) {
  if (c.marks_first_frame || !c.has_frame_biases) return "LTX-2.5";
  return c.has_gates ? "LTX-2.3" : "LTX-2";
}

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_transformer_shapes, read_transformer_config, check_transformer);
}

}  // namespace burnish::models::ltx2
