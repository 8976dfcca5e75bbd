#include "models/shared_components.h"

#include <fmt/core.h>

#include "base/error.h"
#include "io/files.h"
#include "models/hub_files.h"

namespace burnish::models {

namespace {

/// Builds a module of one configuration, which is always whole.
template <class Module, class Config>
auto builds(const Config& config) {
  return [config](const std::string& /*part*/, const at::TensorOptions& options) { return std::make_unique<Module>(config, options); };
}

/// An autoencoder, whose results depend on the tiles that it is run in.
template <class Module, class Config>
Recipe in_fp32(const std::string& name, const char* what, const Source& source, const Config& config, int64_t tile_size) {
  Recipe recipe{.name = name, .what = what, .source = source, .build = builds<Module>(config), .dtype = at::kFloat};
  if (tile_size > 0) recipe.settings = [size = tile_size](const std::string&) { return fmt::format("tiles of {}", size); };
  return recipe;
}

std::string why_no_tile(const std::string& name, const OptionValue& value) {
  constexpr int64_t kMultiple = 32;  // so that steps of three quarters are whole latents
  auto size = std::get<int64_t>(value);
  if (size >= 0 && size % kMultiple == 0) return "";
  return fmt::format("{} must be 0 or a multiple of {}, not {}", name, kMultiple, size);
}

}  // namespace

Recipe clip_recipe(const std::string& name, const std::string& what, const Source& source, const text::ClipConfig& config) {
  return {.name = name, .what = what, .source = source, .build = builds<text::ClipTextModel>(config)};
}

ComponentNames clip_names(const std::string& name, const std::string& kohya, const std::string& comfyui,
                          const std::vector<std::string>& others) {
  return {.layers = {.weights = "text_model.", .diffusers = name + ".", .kohya = kohya, .others = others, .comfyui = comfyui},
          .lora_targets = "q_proj,k_proj,v_proj,out_proj,fc1,fc2",
          .folder_file = {"", text::transformers_clip_keys()},
          .single_file = {comfyui, text::transformers_clip_keys()}};
}

Recipe t5_recipe(const std::string& name, const Source& source, const text::T5Config& config) {
  return {.name = name, .what = "T5 encoder", .source = source, .build = builds<text::T5Encoder>(config)};
}

ComponentNames t5_names(const std::string& name, const std::string& kohya, const std::string& comfyui,
                        const std::vector<std::string>& others) {
  return {.layers = {.weights = "", .diffusers = name + ".", .kohya = kohya, .others = others, .comfyui = comfyui},
          .lora_targets = "q,k,v,o,wi,wi_0,wi_1,wo",
          .single_file = {comfyui, {}}};
}

Recipe qwen_recipe(const std::string& name, const Source& source, const text::QwenConfig& config) {
  return {.name = name, .what = "Qwen text encoder", .source = source, .build = builds<text::QwenEncoder>(config)};
}

ComponentNames qwen_names(const std::string& name, const text::QwenConfig& config, int64_t num_read, const std::string& kohya,
                          const std::string& comfyui) {
  ComponentNames names{.layers = {.weights = "model.", .diffusers = name + ".", .kohya = kohya, .comfyui = comfyui},
                       .lora_targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
                       .folder_file = {"", text::transformers_qwen_keys()},
                       .single_file = {comfyui, text::transformers_qwen_keys()}};
  for (auto layer = num_read; layer < config.num_layers; ++layer) names.without_gradient.push_back("layers." + std::to_string(layer));
  if (num_read < config.num_layers) names.without_gradient.push_back("norm");
  return names;
}

Recipe vision_recipe(const std::string& name, const Source& source, const text::VisionConfig& config, const text::PixelRule& pixels) {
  return {.name = name,
          .what = "vision tower",
          .source = source,
          .build = builds<text::QwenVision>(config),
          .settings = [pixels](const std::string&) { return fmt::format("shown {} to {} pixels", pixels.least, pixels.most); }};
}

ComponentNames vision_names(const std::string& name, const std::string& kohya) {
  return {.layers = {.weights = "visual.", .diffusers = name + ".", .kohya = kohya},
          .lora_targets = "qkv,proj,gate_proj,up_proj,down_proj",
          .folder_file = {"visual.", {}}};
}

Option tile_option() {
  return {.name = "vae_tile_size",
          .help = "encode and decode larger pictures in overlapping tiles of so many pixels a side, for less memory; 0: whole",
          .otherwise = int64_t{0},
          .elsewhere = "",
          .why_wrong = why_no_tile,
          .about = Option::About::tile_size};
}

Recipe autoencoder_recipe(const std::string& name, const Source& source, const vae::KlConfig& config) {
  return in_fp32<vae::AutoencoderKL>(name, "KL autoencoder", source, config, config.tile_size);
}

ComponentNames autoencoder_names(const std::string& name, const vae::KlConfig& config, const std::string& single_prefix) {
  auto names = plain_names(name);
  names.folder_file = {"", vae::diffusers_kl_keys()};
  names.single_file = {single_prefix, vae::original_kl_keys(config.block_out_channels.size())};
  names.high_precision = {".*"};
  names.without_gradient = {"decoder", "post_quant_conv"};
  return names;
}

Recipe patch_autoencoder_recipe(const std::string& name, const Source& source, const vae::PatchConfig& config) {
  return in_fp32<vae::PatchAutoencoder>(name, "KL autoencoder", source, config, config.kl.tile_size);
}

ComponentNames patch_autoencoder_names(const std::string& name, const vae::PatchConfig& config, const std::string& single_prefix) {
  auto names = autoencoder_names(name, config.kl, single_prefix);
  names.single_file.keys = vae::original_kl_keys(config.kl.block_out_channels.size(), /*beside=*/false);
  names.without_gradient.push_back("bn");
  return names;
}

Recipe causal_autoencoder_recipe(const std::string& name, const Source& source, const vae::CausalConfig& config) {
  return in_fp32<vae::CausalAutoencoder>(name, "causal autoencoder", source, config, config.tile_size);
}

ComponentNames causal_autoencoder_names(const std::string& name, const vae::CausalConfig& config, const std::string& single_prefix) {
  auto names = plain_names(name);
  names.folder_file = {"", vae::diffusers_causal_keys()};
  names.single_file = {single_prefix, vae::original_causal_keys(config)};
  names.high_precision = {".*"};
  names.without_gradient = {"decoder", "post_quant_conv"};
  return names;
}

std::optional<io::TensorSource> find_below(const ModelEntry& entry, const std::vector<std::string>& prefixes, const std::string& mark) {
  if (!entry.tensors) return std::nullopt;
  for (const auto& prefix : prefixes) {
    if (entry.tensors->contains(prefix + mark)) return prefix.empty() ? *entry.tensors : entry.tensors->below(prefix);
  }
  return std::nullopt;
}

Source find_autoencoder(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    for (const char* mark : {"decoder.up_blocks.0.resnets.0.norm1.weight", "decoder.up.0.block.0.norm1.weight"}) {
      if (auto tensors = find_below(entry, {"", "vae.", "first_stage_model."}, mark)) return {&entry, tensors, vae::kl_keys(*tensors)};
    }
  }
  return {};
}

Source find_patch_autoencoder(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    auto found = find_autoencoder({{entry}, {}});
    if (found.entry && vae::has_patch_statistics(*found.tensors)) return {&entry, vae::patch_tensors(*found.tensors), found.keys};
  }
  return {};
}

Source find_causal_autoencoder(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    for (const char* mark : {"decoder.up_blocks.0.resnets.0.norm1.gamma", "decoder.upsamples.0.residual.0.gamma"}) {
      auto tensors = find_below(entry, {"", "vae.", "first_stage_model."}, mark);
      if (tensors) return {&entry, vae::causal_tensors(*tensors), vae::causal_keys(*tensors)};
    }
  }
  return {};
}

Source find_t5(const ModelFiles& files, const std::vector<std::string>& prefixes) {
  for (const auto& entry : files.entries) {
    if (auto found = find_below(entry, prefixes, "encoder.block.0.layer.0.SelfAttention.q.weight")) {
      auto tensors = text::t5_tensors(*found);
      return {&entry, tensors, text::t5_keys(tensors)};
    }
  }
  return {};
}

Source find_qwen(const ModelFiles& files, const std::vector<std::string>& prefixes, const std::string& mark) {
  for (const auto& entry : files.entries) {
    for (const std::string body : {"model.language_model.", "model.", ""}) {
      if (auto tensors = find_below(entry, prefixes, body + "layers.0.self_attn." + mark))
        return {&entry, text::qwen_tensors(*tensors), {}};
    }
  }
  return {};
}

// Old files keep it at the top, new ones beside the text model.
Source find_vision_tower(const ModelFiles& files, const std::vector<std::string>& prefixes) {
  for (const auto& entry : files.entries) {
    for (const auto& prefix : prefixes) {
      for (const char* tower : {"visual.", "model.visual."}) {
        if (auto tensors = find_below(entry, {prefix + tower}, text::kVisionMark)) return {&entry, tensors, {}};
      }
    }
  }
  return {};
}

void check_latents(const Source& transformer, int64_t channels_read, const Source& autoencoder, int64_t channels_made) {
  if (!transformer.entry || !autoencoder.entry || channels_read == channels_made) return;
  data_error("models", "the transformer takes {} latent channels and the autoencoder makes {}; they belong to different models",
             channels_read, channels_made);
}

void check_widths(const Source& transformer, const char* what, int64_t width_read, const Source& encoder, const char* name,
                  int64_t width_made) {
  if (!transformer.entry || !encoder.entry || width_read == width_made) return;
  data_error("models", "the transformer takes {} of width {} and the {} makes {}; they belong to different models", what, width_read, name,
             width_made);
}

Option prompt_length_option() {
  return {.name = "max_sequence_length",
          .help = "text tokens; 0 takes what the model was trained with",
          .otherwise = int64_t{0},
          .elsewhere = "give max_token_length, or take it out",
          .why_wrong = why_no_token_count,
          .about = Option::About::prompts};
}

int64_t prompt_length(const ModelOptions& options, int64_t otherwise) {
  auto chosen = options.get<int64_t>("max_sequence_length");
  return chosen > 0 ? chosen : otherwise;
}

std::optional<std::filesystem::path> find_tokenizer(const ModelFiles& files, const std::string& chosen, const std::string& folder) {
  if (chosen.empty()) return files.in_pipeline(folder);
  auto colon = chosen.rfind(':');
  if (colon == chosen.npos || io::is_there(chosen)) return chosen;
  auto found = model_base_files(chosen.substr(0, colon), chosen.substr(colon + 1), HubUse::all);
  return found.empty() ? std::filesystem::path(chosen) : found[0];
}

std::filesystem::path tokenizer_folder(const ModelFiles& files, const std::string& chosen, const std::string& folder, const char* kind) {
  if (auto found = find_tokenizer(files, chosen, folder)) return *found;
  data_error("models", "no {} tokenizer beside the model; name its folder with --{}_path", kind, folder);
}

}  // namespace burnish::models
