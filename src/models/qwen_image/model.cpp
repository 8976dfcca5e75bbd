#include "models/qwen_image/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/norm.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "models/scheduler_file.h"
#include "models/shared_components.h"
#include "models/shared_units.h"
#include "tokenizers/qwen.h"

namespace burnish::models::qwen_image {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body";
/// The conversation that the text encoder reads; the states of what comes before the prompt are dropped (diffusers:
/// pipeline_qwenimage.py).
const tokenizers::ChatTemplate kChat{
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the "
    "objects and background:<|im_end|>\n<|im_start|>user\n",
    "<|im_end|>\n<|im_start|>assistant\n"};

/// Guided predictions whose tokens are as long as those without guidance (diffusers: pipeline_qwenimage.py).
at::Tensor guide_tokens(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale) {
  if (rescale != 0)
    config_error("models", "guidance_rescale is {}, and this model's guided predictions are brought back token by token; leave it at 0",
                 rescale);
  auto guided = diffusion::guide(conditional, unconditional, scale, 0);
  auto length = [](const at::Tensor& x_BCHW) { return at::norm(as_patches(x_BCHW), 2, {1, 3, 5}, /*keepdim=*/true); };
  return (as_patches(guided) * (length(conditional) / length(guided))).reshape(guided.sizes());
}

}  // namespace

text::QwenConfig published_text_config() {
  return {.vocab_size = 152064,
          .width = 3584,
          .hidden = 18944,
          .num_layers = 28,
          .num_heads = 28,
          .num_kv_heads = 4,
          .qkv_bias = true,
          .qk_norm = false};
}

QwenImageModel::QwenImageModel(const ModelFiles& files, const ModelOptions& options) : Model(files, options) {
  auto sources = find_sources(files_);
  read_configs(sources);
  fill_names();
  add_components(sources);
  auto scheduler = read_scheduler(files_);
  process_ = std::make_unique<diffusion::FlowProcess>(
      scheduler ? diffusion::flow_sampler_config(*scheduler)
                : diffusion::FlowSamplerConfig{.max_shift = 0.9, .max_image_seq_len = 8192, .shift_terminal = 0.02});
}

void QwenImageModel::read_configs(const Sources& sources) {
  const auto& [dit, text, vae] = sources;
  if (dit.entry) config_ = detect(dit.entry->config.is_null() ? nullptr : &dit.entry->config, dit.shapes());
  text_config_ = text.entry ? text::qwen_config(text.entry->config, text.shapes()) : published_text_config();
  if (vae.entry) vae_config_ = models::vae::causal_config(vae.entry->config, vae.shapes());
  if (dit.entry && vae.entry && 4 * vae_config_.latent_channels != config_.in_channels)
    data_error("models", "the transformer takes {} latent channels and the autoencoder makes {}; they belong to different models",
               config_.in_channels / 4, vae_config_.latent_channels);
  if (dit.entry && text.entry && text_config_.width != config_.caption_width)
    data_error("models", "the transformer takes texts of width {} and the text encoder makes {}; they belong to different models",
               config_.caption_width, text_config_.width);
}

// ai-toolkit and ComfyUI have our paths behind "diffusion_model.", DiffSynth-Studio behind nothing, kohya's and musubi-tuner's files with
// underscores.
void QwenImageModel::fill_names() {
  names_.family = "qwen_image";
  names_.variant = "Qwen-Image";
  names_.denoisers = {"dit"};
  auto last = fmt::format("transformer_blocks.{}.", config_.num_layers - 1);
  names_.components = {
      {"dit",
       {.layers = {.weights = "",
                   .diffusers = "transformer.",
                   .kohya = "lora_unet_",
                   .others = {"lora_transformer_"},
                   .diffusers_alpha = false,
                   .comfyui = "diffusion_model.",
                   .diffsynth = ""},
        .lora_targets = "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,img_mlp.net.0.proj,img_mlp.net.2,"
                        "txt_mlp.net.0.proj,txt_mlp.net.2,img_mod.1,txt_mod.1",
        .high_precision = {"img_in", "txt_in", "time_text_embed\\..*", ".*\\.img_mod\\.1", ".*\\.txt_mod\\.1", "norm_out\\.linear",
                           "proj_out"},
        // Nothing reads the caption behind the last block.
        .without_gradient = {last + "attn.to_add_out", last + "attn.add_q_proj", last + "attn.norm_added_q", last + "txt_mlp"},
        .single_file = {"model.diffusion_model.", {}}}},
      {"text_encoder",
       qwen_names("text_encoder", text_config_, text_config_.num_layers, "lora_te_", "text_encoders.qwen25_7b.transformer.")},
      {"vae", causal_autoencoder_names("vae", vae_config_, "vae.")},
  };
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels / 4, -1, -1}, .diffsynth = "input_latents"}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .diffsynth = "prompt_emb", .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = "prompt_emb_mask", .of_prompt = true, .padded = true}},
  };
}

void QwenImageModel::add_components(const Sources& sources) {
  components_.add({
      .name = "dit",
      .what = "transformer",
      .source = sources.dit,
      .build =
          [this](const std::string& part, const at::TensorOptions& options) {
            return std::make_unique<Transformer>(config_, options, Part{.modulation = part != kBody, .body = part != kModulation});
          },
      .parts = {kModulation, kBody},
      .initialise = [this](nn::Module& whole) { static_cast<Transformer&>(whole).initialise(options_.seed); },
  });
  auto text = qwen_recipe("text_encoder", sources.text_encoder, text_config_);
  text.tokenizer = {.folder = [this] { return tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "Qwen"); },
                    .load = [](const auto& folder) { return tokenizers::load_qwen(folder, kChat); },
                    .limit = [this](const auto& tokenizer) { return tokenizer.num_before() + text_length(); },
                    .option = "max_sequence_length",
                    .vocab_size = text_config_.vocab_size};
  text.settings = [this](const std::string&) { return fmt::format("max_sequence_length {}", text_length()); };
  components_.add(text);
  components_.add(causal_autoencoder_recipe("vae", sources.vae, vae_config_));
}

diffusion::Guide QwenImageModel::guide() const { return guide_tokens; }

std::vector<int64_t> QwenImageModel::latent_shape(const Extent& extent) const {
  check_picture(extent);
  return {vae_config_.latent_channels, extent.height / vae_config_.downsampling(), extent.width / vae_config_.downsampling()};
}

int64_t QwenImageModel::text_length() const {
  auto chosen = options_.get<int64_t>("max_sequence_length");
  return chosen > 0 ? chosen : 1024;
}

void QwenImageModel::encode_prompt(pipeline::Scope& scope) {
  const auto num_before = components_.tokenizer("text_encoder").num_before();
  encode_by_qwen(scope, components_, options_.device, text_config_.num_layers, num_before + text_length(), num_before);
}

void QwenImageModel::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(kModulation).modulate(sigma, options_.dtype));
}

void QwenImageModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  auto prediction = loaded<Transformer>(kBody).forward({.noisy_BCHW = scope.tensor("noisy"),
                                                        .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                                                        .mask_BT = scope.tensor("text_mask").to(options_.device),
                                                        .modulation_BM = scope.tensor("modulation")});
  scope.write("prediction", prediction);
}

UnitGroups QwenImageModel::units() {
  using pipeline::Scope;
  UnitGroups groups;
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  groups.encode_image = latent_units(options_.latents, "vae", [this](const at::Tensor& image) {
    return loaded<vae::CausalAutoencoder>("vae").encode(image.to(options_.device));
  });
  groups.add_noise = noise_units(*process_);
  groups.denoise = {
      {"modulate", {"sigma"}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
      {"denoise", {"noisy", "text_embedding", "text_mask", "modulation"}, {"prediction"}, {kBody}, [this](Scope& s) { denoise(s); }}};
  groups.loss = loss_units();
  groups.decode = decode_units("vae", [this](const at::Tensor& latents) { return loaded<vae::CausalAutoencoder>("vae").decode(latents); });
  return groups;
}

}  // namespace burnish::models::qwen_image
