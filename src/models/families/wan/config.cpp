#include "models/families/wan/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/families/wan/camera.h"
#include "models/files/config_values.h"

namespace burnish::models::wan {

namespace {

constexpr const char* kWhat = "transformer";

constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "patch_embedding.weight", 1, "in_channels"},
    {&Config::num_layers, "blocks.{}.attn1.norm_q.weight", 0, "num_layers"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::head_dim, nullptr, 0, "attention_head_dim"},
    {&Config::hidden, "blocks.0.ffn.net.0.proj.weight", 0, "ffn_dim"},
    {&Config::caption_width, "condition_embedder.text_embedder.linear_1.weight", 1, "text_dim"},
    {&Config::time_channels, "condition_embedder.time_embedder.linear_1.weight", 1, "freq_dim"},
    {&Config::image_width, nullptr, 0, "image_dim"},
};

/// The names of the numbers in the original config.json; "dim" is the width.
constexpr Number<Config> kOriginalNumbers[] = {
    {&Config::in_channels, nullptr, 0, "in_dim"},
    {&Config::out_channels, nullptr, 0, "out_dim"},
    {&Config::num_heads, nullptr, 0, "num_heads"},
};

int64_t side_or_none(const io::Shapes& shapes, const std::string& name, size_t dim) {
  return shapes.contains(name) ? io::side_of(shapes, name, dim, kWhat) : 0;
}

Extras extras_of(const io::Shapes& shapes) {
  constexpr const char* kCamera = "control_adapter.conv.weight";
  constexpr int64_t kChannels = 64 * kRayChannels;
  Extras c{.image_places = side_or_none(shapes, "condition_embedder.image_embedder.pos_embed", 1),
           .has_reference = shapes.contains("ref_conv.weight"),
           .has_camera = shapes.contains(kCamera),
           .area_channels = side_or_none(shapes, "patch_embedding_mask.weight", 1)};
  if (const auto channels = side_or_none(shapes, kCamera, 1); c.has_camera && channels != kChannels)
    data_error("models", "the transformer's adapter of cameras reads {} channels; {} were expected", channels, kChannels);
  return c;
}

/// Reads the numbers of what hears. Which blocks it follows is known of the published model, and else said by config.json.
SpeechConfig speech_of(const io::Shapes& shapes) {
  const auto count = io::count_of(shapes, "audio_injector.injector.{}.norm_q.weight");
  if (count == 0) return {};
  auto side = [&](const char* name, size_t dim) { return io::side_of(shapes, name, dim, kWhat); };
  const std::string encoder = "casual_audio_encoder.encoder.";
  SpeechConfig c{.layers = kPublishedHearing,
                 .num_states = side("casual_audio_encoder.weights", 1),
                 .sound_width = side((encoder + "conv1_local.weight").c_str(), 1),
                 .pose_channels = side("cond_encoder.weight", 1),
                 .has_packer = shapes.contains("frame_packer.proj.weight")};
  c.num_tokens = side((encoder + "conv1_local.weight").c_str(), 0) / std::max<int64_t>(1, side((encoder + "conv2.weight").c_str(), 1));
  if (count != std::ssize(c.layers)) c.layers.assign(static_cast<size_t>(count), 0);
  return c;
}

void read_speech(SpeechConfig& c, const nlohmann::json& json, bool tensors) {
  if (tensors && !c.is_there()) return;
  const auto count = c.layers.size();
  const bool is_stated = io::take(json, "audio_inject_layers", c.layers, kWhat);
  if (!tensors && !is_stated) return;
  if (tensors && count != c.layers.size())
    data_error("models", "config.json says audio_inject_layers = [{}], and the tensors are of {} of them; they belong to different models",
               fmt::join(c.layers, ", "), count);
  agree_on(json, "audio_dim", c.sound_width, tensors);
  agree_on(json, "num_audio_token", c.num_tokens, tensors);
  agree_on(json, "cond_dim", c.pose_channels, tensors);
  if (!tensors) io::take(json, "enable_framepack", c.has_packer, kWhat);
  agree_on_known(json, "enable_adain", true);
  agree_on_known(json, "zero_timestep", true);
  agree_on_known(json, "enable_motioner", false);
}

void check_speech(const Config& c) {
  const auto& speech = c.extras.speech;
  if (!speech.is_there()) return;
  check_sizes({speech.num_states, speech.sound_width, speech.num_tokens, speech.pose_channels, c.width() / 4});
  const bool is_rising = std::ranges::adjacent_find(speech.layers, std::greater_equal<>()) == speech.layers.end();
  if (!is_rising || speech.layers.front() < 0 || speech.layers.back() >= c.num_layers || c.width() % 4 != 0)
    data_error("models",
               "the transformer hears behind blocks [{}] (audio_inject_layers of config.json); {} rising numbers from 0 to {} were "
               "expected, and a width that 4 divides",
               fmt::join(speech.layers, ", "), speech.layers.size(), c.num_layers - 1);
}

/// Reads the numbers of what InfiniteTalk adds. A window of a frame of the latents is three frames longer than one of a frame.
TalkConfig talk_of(const io::Shapes& shapes, const Config& c) {
  const std::string first = "audio_proj.proj1.weight";
  if (!shapes.contains(first)) return {};
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, kWhat); };
  TalkConfig talk{.sound_width = (side("audio_proj.proj1_vf.weight", 1) - side(first, 1)) / 3,
                  .hidden = side(first, 0),
                  .token_width = side("audio_proj.norm.weight", 0)};
  check_sizes({talk.sound_width, talk.token_width});
  talk.window = side(first, 1) / talk.sound_width;
  talk.num_tokens = side("audio_proj.proj3.weight", 0) / talk.token_width;
  const auto num_blocks = io::count_of(shapes, "blocks.{}.audio_cross_attn.q_linear.weight");
  const auto width = num_blocks > 0 ? side("blocks.0.audio_cross_attn.q_linear.weight", 0) : 0;
  if (num_blocks != c.num_layers || width != c.width())
    data_error(
        "models",
        "what InfiniteTalk adds is for {} blocks {} wide, and the transformer has {} blocks {} wide; they belong to different models",
        num_blocks, width, c.num_layers, c.width());
  return talk;
}

void read_talk(TalkConfig& c, const nlohmann::json& json, bool tensors) {
  if (tensors && !c.is_there()) return;
  int64_t states = 0, width = 0;
  const bool is_stated = io::take(json, "audio_layers", states, kWhat) && io::take(json, "audio_dim", width, kWhat);
  if (!tensors && !is_stated) return;
  if (!tensors) c.sound_width = states * width;
  agree_on(json, "audio_window", c.window, tensors);
  agree_on(json, "audio_intermediate_dim", c.hidden, tensors);
  agree_on(json, "audio_context_tokens", c.num_tokens, tensors);
  agree_on(json, "audio_output_dim", c.token_width, tensors);
}

void check_talk(const Config& c) {
  const auto& talk = c.extras.talk;
  if (!talk.is_there()) return;
  check_sizes({talk.sound_width, talk.window, talk.hidden, talk.num_tokens, talk.token_width});
  if (talk.window % 2 == 0) data_error("models", "the transformer hears {} frames around one; an odd number was expected", talk.window);
  if (c.in_channels == c.out_channels || c.image_width == 0)
    data_error("models",
               "InfiniteTalk adds to a transformer that goes on from a picture, and this one reads {} channels and {} states of pictures; "
               "name the transformer of Wan2.1-I2V-14B-480P beside it",
               c.in_channels, c.image_width > 0 ? "has" : "no");
}

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.out_channels = io::side_of(shapes, "proj_out.weight", 0, kWhat) / (kPatch * kPatch);
  // The width alone is told; heads are as wide as published ones unless config.json says how many there are.
  const auto width = io::side_of(shapes, "patch_embedding.weight", 0, kWhat);
  c.num_heads = std::max<int64_t>(1, width / c.head_dim);
  c.head_dim = width / c.num_heads;
  c.image_width = side_or_none(shapes, "condition_embedder.image_embedder.norm1.weight", 0);
  c.extras = extras_of(shapes);
  c.extras.speech = speech_of(shapes);
  c.extras.talk = talk_of(shapes, c);
  if (!shapes.contains("blocks.0.norm2.weight"))
    data_error("models", "the transformer lacks 'blocks.0.norm2.weight', the norm before its attention to texts, which all of Wan have");
}

void read_heads(Config& c, const nlohmann::json& json, int64_t width) {
  bool wide = io::take(json, "attention_head_dim", c.head_dim, kWhat);
  int64_t stated = 0;
  bool many = io::take(json, "num_attention_heads", stated, kWhat) || io::take(json, "num_heads", stated, kWhat);
  if (many && stated < 1) data_error("models", "config.json gives the transformer {} heads; at least 1 was expected", stated);
  if (many && !wide) c.head_dim = width / stated;
  if (c.head_dim < 1) data_error("models", "config.json gives the transformer heads of width {}; at least 1 was expected", c.head_dim);
  c.num_heads = width / c.head_dim;
}

/// Switches of models that are not this one.
void refuse_others(const nlohmann::json& json) {
  std::vector<int64_t> patch{1, kPatch, kPatch};
  io::take(json, "patch_size", patch, kWhat);
  if (patch != std::vector<int64_t>{1, kPatch, kPatch})
    data_error("models", "the transformer's config.json says patch_size = [{}]; [1, 2, 2] was expected, as all of Wan have it",
               fmt::join(patch, ", "));
  std::string norm = "rms_norm_across_heads";
  if (auto it = json.find("qk_norm"); it != json.end() && it->is_string()) norm = it->get<std::string>();
  if (norm != "rms_norm_across_heads")
    data_error("models", "the transformer's config.json says qk_norm = {}; rms_norm_across_heads was expected, as all of Wan have it",
               norm);
  agree_on_known(json, "cross_attn_norm", true);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  int64_t width = tensors ? c.width() : 0;
  agree_on(json, "dim", width, tensors);
  if (width > 0) read_heads(c, json, width);
  read_keys(c, kNumbers, json, tensors);
  read_keys(c, kOriginalNumbers, json, tensors);
  agree_on(json, "out_channels", c.out_channels, tensors);
  agree_on(json, "pos_embed_seq_len", c.extras.image_places, tensors);
  agree_on(json, "mask_dim", c.extras.area_channels, tensors);
  read_speech(c.extras.speech, json, tensors);
  read_talk(c.extras.talk, json, tensors);
  if (!tensors) {
    io::take(json, "add_ref_conv", c.extras.has_reference, kWhat);
    io::take(json, "add_control_adapter", c.extras.has_camera, kWhat);
    if (c.extras.area_channels > 0 && c.image_width == 0) c.image_width = 1280;  // which its config.json does not say
  }
  refuse_others(json);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.out_channels, c.num_heads, c.head_dim, c.hidden, c.caption_width, c.width()});
  if (c.num_layers < 1 || c.num_layers > kMostBlocks)
    data_error("models", "the transformer's config.json or tensors give it {} layers; 1 to {} were expected", c.num_layers, kMostBlocks);
  if (c.in_channels < c.out_channels)
    data_error("models", "the transformer reads {} channels and predicts {}; it was expected to read at least what it predicts",
               c.in_channels, c.out_channels);
  if (c.head_dim % 2 != 0 || c.head_dim < 6)
    data_error("models", "the transformer's heads are {} wide; an even number from 6 on was expected", c.head_dim);
  check_speech(c);
  check_talk(c);
  if (c.time_channels < 2 || c.time_channels % 2 != 0)
    data_error("models", "the transformer reads {} sinusoids of the time; an even number from 2 on was expected", c.time_channels);
}

}  // namespace

Config detect_driven(const nlohmann::json* config_json, const io::Shapes& shapes) {
  auto c = detect(config_json, shapes);
  c.extras.driving.is_read = true;
  if (shapes.empty()) c.image_width = 1280;  // which none of its config.json says
  if (config_json != nullptr) {
    io::take(*config_json, "refer_offset_t", c.extras.driving.offsets[0], kWhat);
    io::take(*config_json, "refer_offset_h", c.extras.driving.offsets[1], kWhat);
    io::take(*config_json, "refer_offset_w", c.extras.driving.offsets[2], kWhat);
    io::take(*config_json, "refer_stride", c.extras.driving.stride, kWhat);
  }
  if (c.extras.driving.stride < 1)
    data_error("models", "config.json says refer_stride = {}; at least 1 was expected", c.extras.driving.stride);
  return c;
}

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::wan
