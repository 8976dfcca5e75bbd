#include "models/families/wan/companion_files.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/input_error.h"
#include "io/files.h"
#include "io/model_values.h"
#include "models/families/wan/animate.h"
#include "models/families/wan/frames.h"
#include "models/families/wan/motion.h"
#include "models/families/wan/published.h"
#include "models/families/wan/vace.h"
#include "models/parts/clip_vision.h"
#include "models/text/t5.h"
#include "models/vae/causal_autoencoder.h"

namespace burnish::models::wan {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::string kTextEncoder = "text_encoder", kVae = "vae", kImageEncoder = "image_encoder", kTokenizer = "tokenizer";
const std::string kIndex = "model_index.json", kConfig = "/config.json";

json or_null(int64_t value) { return value > 0 ? json(value) : json(); }

/// Tells whether an entry's own config.json is that of diffusers or transformers, and not the one that Wan publishes.
bool has_config(const ModelEntry& entry) {
  if (!entry.config.is_object()) return false;
  auto name = io::class_name(entry.config);
  return name != "WanModel" && name != "WanSCAILModel" && name != "SCAIL2Model" && name != "VaceWanModel" && name != "WanAnimateModel";
}

json transformer_config(const Config& c) {
  return {{"_class_name", "WanTransformer3DModel"},
          {"patch_size", {1, kPatch, kPatch}},
          {"num_attention_heads", c.num_heads},
          {"attention_head_dim", c.head_dim},
          {"in_channels", c.in_channels},
          {"out_channels", c.out_channels},
          {"text_dim", c.caption_width},
          {"freq_dim", c.time_channels},
          {"ffn_dim", c.hidden},
          {"num_layers", c.num_layers},
          {"cross_attn_norm", true},
          {"qk_norm", "rms_norm_across_heads"},
          {"eps", 1e-6},
          {"image_dim", or_null(c.image_width)},
          {"added_kv_proj_dim", c.image_width > 0 ? json(c.width()) : json()},
          {"pos_embed_seq_len", or_null(c.extras.image_places)},
          {"rope_max_seq_len", 1024}};
}

/// Returns the numbers of a transformer as Wan itself calls them.
json original_numbers(const Config& c) {
  return {{"dim", c.width()},
          {"num_heads", c.num_heads},
          {"in_dim", c.in_channels},
          {"out_dim", c.out_channels},
          {"text_dim", c.caption_width},
          {"text_len", 512},
          {"freq_dim", c.time_channels},
          {"ffn_dim", c.hidden},
          {"num_layers", c.num_layers},
          {"eps", 1e-6}};
}

/// Returns what diffusers and Wan itself call the numbers of a driven transformer, alike.
json driven_config(const Config& c) {
  const auto& driving = c.extras.driving;
  auto config = original_numbers(c);
  config.update({{"_class_name", kDrivenClass},
                 {"patch_size", {1, kPatch, kPatch}},
                 {"cross_attn_norm", true},
                 {"use_img_emb", c.image_width > 0},
                 {"refer_offset_t", driving.offsets[0]},
                 {"refer_offset_h", driving.offsets[1]},
                 {"refer_offset_w", driving.offsets[2]},
                 {"refer_stride", driving.stride}});
  return config;
}

/// Returns what the published config.json of SCAIL-2's transformer says.
json scail_config(const Config& c) {
  auto config = original_numbers(c);
  config.update({{"_class_name", "WanSCAILModel"}, {"model_type", "i2v"}, {"mask_dim", c.extras.area_channels}});
  return config;
}

/// What VideoX-Fun has in its config.json for layers that diffusers' class lacks, which is not to take the file for its own.
void add_fun(json& config, const Extras& extras) {
  config["_class_name"] = "WanModel";
  config["add_ref_conv"] = extras.has_reference;
  config["add_control_adapter"] = extras.has_camera;
}

/// Returns the numbers of what InfiniteTalk adds, as SimpleTuner's class has them; diffusers has no class for it.
void add_talk(json& config, const TalkConfig& c) {
  const auto width = c.sound_width % kStateWidth == 0 ? kStateWidth : c.sound_width;
  config["_class_name"] = kTalkClass;
  config["audio_layers"] = c.sound_width / width;
  config["audio_dim"] = width;
  config["audio_window"] = c.window;
  config["audio_intermediate_dim"] = c.hidden;
  config["audio_context_tokens"] = c.num_tokens;
  config["audio_output_dim"] = c.token_width;
  config["vae_temporal_scale"] = 4;
}

void add_animate(json& config, const AnimateConfig& c) {
  config["_class_name"] = "WanAnimateTransformer3DModel";
  config["latent_channels"] = c.pose_channels;
  auto& sizes = config["motion_encoder_channel_sizes"];
  for (size_t i = 0; i < c.channels.size(); ++i) sizes[std::to_string(c.face_side() >> i)] = c.channels[i];
  config["motion_encoder_size"] = c.face_side();
  config["motion_style_dim"] = c.style_width;
  config["motion_dim"] = c.num_motions;
  config["motion_encoder_dim"] = c.motion_width;
  config["face_encoder_hidden_dim"] = c.face_width;
  config["face_encoder_num_heads"] = c.num_tokens;
  config["inject_face_latents_blocks"] = c.step;
}

void add_vace(json& config, const VaceConfig& c) {
  config["_class_name"] = "WanVACETransformer3DModel";
  config["vace_in_channels"] = c.in_channels;
  config["vace_layers"] = c.layers;
}

json text_config(const text::T5Config& c) {
  return {{"architectures", {"UMT5EncoderModel"}},
          {"model_type", "umt5"},
          {"vocab_size", c.vocab_size},
          {"d_model", c.width},
          {"d_kv", c.head_dim},
          {"d_ff", c.hidden},
          {"num_layers", c.num_layers},
          {"num_decoder_layers", c.num_layers},
          {"num_heads", c.num_heads},
          {"relative_attention_num_buckets", c.num_buckets},
          {"relative_attention_max_distance", c.max_distance},
          {"feed_forward_proj", c.gelu ? "gated-gelu" : "gated-relu"},
          {"layer_norm_epsilon", c.eps},
          {"is_encoder_decoder", true},
          {"pad_token_id", 0},
          {"eos_token_id", 1},
          {"decoder_start_token_id", 0}};
}

json vae_config(const vae::CausalConfig& c) {
  auto times = json::array();
  for (auto channels : c.block_out_channels) times.push_back(channels / c.first_channels);
  const bool is_mirrored = c.decoder_channels == c.block_out_channels;
  const auto of_pixel = 3 * c.pixels.patch * c.pixels.patch;
  return {{"_class_name", "AutoencoderKLWan"},
          {"base_dim", c.first_channels},
          {"decoder_base_dim", is_mirrored ? json() : json(c.decoder_channels.front())},
          {"z_dim", c.latent_channels},
          {"dim_mult", times},
          {"num_res_blocks", c.layers_per_block},
          {"attn_scales", json::array()},
          {"temperal_downsample", c.halves_frames},
          {"dropout", 0.0},
          {"latents_mean", c.latents_mean},
          {"latents_std", c.latents_std},
          {"is_residual", c.shortcuts},
          {"in_channels", of_pixel},
          {"out_channels", of_pixel},
          {"patch_size", c.pixels.patch > 1 ? json(c.pixels.patch) : json()},
          {"scale_factor_temporal", c.frames_per_latent()},
          {"scale_factor_spatial", c.downsampling()}};
}

json image_encoder_config(const ClipVisionConfig& c) {
  return {{"architectures", {"CLIPVisionModel"}},
          {"model_type", "clip_vision_model"},
          {"hidden_size", c.width},
          {"intermediate_size", c.hidden},
          {"num_hidden_layers", c.num_layers},
          {"num_attention_heads", c.num_heads},
          {"num_channels", 3},
          {"image_size", c.image_size()},
          {"patch_size", c.patch},
          {"hidden_act", c.quick_gelu ? "quick_gelu" : "gelu"},
          {"layer_norm_eps", c.eps}};
}

/// CLIP's processor of pictures, with its mean and deviation (Radford et al. 2021).
json image_processor_config(int64_t side) {
  return {{"image_processor_type", "CLIPImageProcessor"},
          {"do_convert_rgb", true},
          {"do_resize", true},
          {"size", {{"shortest_edge", side}}},
          {"resample", 3},
          {"do_center_crop", true},
          {"crop_size", {{"height", side}, {"width", side}}},
          {"do_rescale", true},
          {"rescale_factor", 1 / 255.0},
          {"do_normalize", true},
          {"image_mean", {0.48145466, 0.4578275, 0.40821073}},
          {"image_std", {0.26862954, 0.26130258, 0.27577711}}};
}

json scheduler_config(double shift) {
  return {{"_class_name", "UniPCMultistepScheduler"},
          {"num_train_timesteps", 1000},
          {"prediction_type", "flow_prediction"},
          {"use_flow_sigmas", true},
          {"flow_shift", shift},
          {"solver_order", 2},
          {"solver_type", "bh2"},
          {"predict_x0", true},
          {"lower_order_final", true},
          {"final_sigmas_type", "zero"},
          {"timestep_spacing", "linspace"}};
}

/// The folder of the text encoder's tokenizer; nothing where there is none.
std::optional<fs::path> tokenizer_folder(const Model& model) {
  const auto* recipe = model.components().find(kTextEncoder);
  if (recipe == nullptr || !model.components().has(kTextEncoder)) return std::nullopt;
  try {
    const auto folder = recipe->tokenizer->folder();
    return io::is_folder(folder) ? std::optional(folder) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Makes it all of one model.
class Beside {
 public:
  explicit Beside(const Model& model)
      : model_(model),
        dit_(source_of("dit").entry ? source_of("dit") : source_of("dit_2")),
        is_driven_(model.names().variant == "Wan2.2-Animate-2-14B") {
    config_ = dit_.read(is_driven_ ? detect_driven : detect);
    vae_config_ = source_of(kVae).read(vae::causal_config, {});
  }

  CompanionFiles made() {
    if (!dit_.tensors || config_.extras.speech.is_there()) return {};  // where it hears, shapes do not say
    for (const auto& expert : model_.names().experts) add_transformer(expert.component);
    add(kTextEncoder, [&](const Source& s) { return text_config(s.read(text::t5_config)); });
    add(kVae, [&](const Source&) { return vae_config(vae_config_); });
    add(kImageEncoder, [&](const Source& s) { return image_encoder_config(s.read(clip_vision_config)); });
    if (has(kMotion)) beside_.configs[kMotion + kConfig] = {{"_class_name", "WanMotionControllerModel"}};
    if (auto folder = tokenizer_folder(model_)) beside_.tokenizers[kTokenizer] = *folder;
    if (is_whole()) add_pipeline();
    return std::move(beside_);
  }

 private:
  const Source& source_of(const std::string& component) const {
    static const Source kNone;
    return model_.components().find(component) ? model_.components().source(component) : kNone;
  }
  bool has(const std::string& component) const { return source_of(component).tensors.has_value(); }

  /// Tells whether it is one of the Fun models that read a clip, a picture or a camera, which diffusers has no class for.
  bool is_fun() const {
    const auto& extras = config_.extras;
    return extras.has_reference || extras.has_camera || config_.in_channels > 2 * config_.out_channels + kMaskChannels;
  }

  bool is_scail() const { return config_.extras.area_channels > 0; }

  void add(const std::string& component, const std::function<json(const Source&)>& config_of) {
    const auto& source = source_of(component);
    if (source.tensors && !has_config(*source.entry)) beside_.configs[component + kConfig] = config_of(source);
  }

  void add_transformer(const std::string& name) {
    const auto& source = source_of(name);
    if (!source.tensors || has_config(*source.entry)) return;
    auto& config = beside_.configs[(name == "dit" ? "transformer" : "transformer_2") + kConfig];
    config = is_driven_ ? driven_config(config_) : transformer_config(source.read(detect));
    if (is_scail()) config = scail_config(config_);
    if (is_fun()) add_fun(config, config_.extras);
    if (config_.extras.talk.is_there()) add_talk(config, config_.extras.talk);
    const auto& animate = source_of(kAnimate);
    if (animate.tensors) add_animate(config, detect_animate(animate.entry->config, animate.shapes(), config_));
    const auto& vace = source_of(name == "dit" ? kVace : kVace + "_2");
    if (vace.tensors) add_vace(config, detect_vace(vace.entry->config, vace.shapes(), config_));
  }

  bool is_whole() const {
    const bool has_all = std::ranges::all_of(model_.names().experts, [&](const auto& expert) { return has(expert.component); });
    const bool has_image = config_.image_width == 0 || has(kImageEncoder);
    // It has none of SCAIL-2 and InfiniteTalk, and makes that of Animate-2 of blocks.
    const bool has_pipeline = !is_driven_ && !is_scail() && !config_.extras.talk.is_there();
    return has_pipeline && has_all && has_image && has(kTextEncoder) && has(kVae) && beside_.tokenizers.contains(kTokenizer);
  }

  void add_pipeline() {
    const auto first_frame = first_frame_of(config_, vae_config_);
    const auto& experts = model_.names().experts;
    const auto classes = classes_of(first_frame);
    const json none{nullptr, nullptr}, transformer = classes.transformer;
    json index{{"_class_name", classes.pipeline},
               {"scheduler", {"diffusers", "UniPCMultistepScheduler"}},
               {"text_encoder", {"transformers", "UMT5EncoderModel"}},
               {"tokenizer", {"transformers", "T5TokenizerFast"}},
               {"transformer", transformer},
               {"vae", {"diffusers", "AutoencoderKLWan"}}};
    if (!has(kAnimate)) {
      index["transformer_2"] = experts.size() > 1 ? transformer : none;
      index["boundary_ratio"] = experts.size() > 1 ? json(experts.front().stretch.from) : json();
      if (!has(kVace)) index["expand_timesteps"] = first_frame == FirstFrame::held;
    }
    if (has(kMotion)) index[kMotion] = {"diffsynth", "WanMotionControllerModel"};
    if (first_frame == FirstFrame::beside) {
      index["image_encoder"] = has(kImageEncoder) ? json{"transformers", "CLIPVisionModel"} : none;
      index["image_processor"] = has(kImageEncoder) ? json{"transformers", "CLIPImageProcessor"} : none;
    }
    if (first_frame == FirstFrame::beside && has(kImageEncoder))
      beside_.configs["image_processor/preprocessor_config.json"] =
          image_processor_config(source_of(kImageEncoder).read(clip_vision_config).image_size());
    beside_.configs["scheduler/scheduler_config.json"] = scheduler_config(shift());
    beside_.configs[kIndex] = std::move(index);
  }

  /// The pipeline's class, and the transformer's with the library that has it.
  struct Classes {
    const char* pipeline;
    std::array<const char*, 2> transformer;
  };
  Classes classes_of(FirstFrame first_frame) const {
    if (has(kAnimate)) return {"WanAnimatePipeline", {"diffusers", "WanAnimateTransformer3DModel"}};
    if (has(kVace)) return {"WanVACEPipeline", {"diffusers", "WanVACETransformer3DModel"}};
    const bool has_experts = model_.names().experts.size() > 1;
    if (is_fun()) return {has_experts ? "Wan2_2FunControlPipeline" : "WanFunControlPipeline", {"videox_fun", "WanTransformer3DModel"}};
    return {first_frame == FirstFrame::beside ? "WanImageToVideoPipeline" : "WanPipeline", {"diffusers", "WanTransformer3DModel"}};
  }

  /// Returns what the published folders say. I2V-14B is published for two sizes, whose weights have the same shapes.
  double shift() const {
    if (config_.extras.image_places > 0) return 16;
    if (has(kAnimate) || first_frame_of(config_, vae_config_) == FirstFrame::held) return 5;
    if (model_.names().variant != "Wan2.1-I2V-14B") return 3;
    std::error_code ignored;
    auto name = dit_.entry->label + "/" + fs::weakly_canonical(dit_.entry->folder, ignored).filename().string();
    if (contains_word(name, "720")) return 5;
    if (contains_word(name, "480") || contains_word(name, "Fun")) return 3;
    data_error("models",
               "{}: the names do not say whether this I2V-14B is for 480P or for 720P, whose schedulers differ; name its folder or file "
               "..480P.. or ..720P.., or a diffusers folder of it with --config_from",
               dit_.entry->label);
  }
  static bool contains_word(const std::string& text, const std::string& word) { return text.find(word) != text.npos; }

  const Model& model_;
  const Source& dit_;
  bool is_driven_;
  Config config_;
  vae::CausalConfig vae_config_;
  CompanionFiles beside_;
};

}  // namespace

CompanionFiles companion_files(const Model& model) { return Beside(model).made(); }

std::optional<fs::path> vocabulary_beside(const Model& model, const std::string& component) {
  if (component != kTextEncoder) return std::nullopt;
  auto folder = tokenizer_folder(model);
  if (!folder || !io::is_there(*folder / "spiece.model")) return std::nullopt;
  return *folder / "spiece.model";
}

}  // namespace burnish::models::wan
