#include "models/zimage/model.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/scheduler_file.h"
#include "models/shared_components.h"
#include "models/shared_units.h"
#include "models/zimage/keys.h"
#include "tokenizers/qwen.h"

namespace burnish::models::zimage {

namespace {

const std::string kFirst = "dit.first_blocks", kLast = "dit.last_blocks";
/// The user's turn of a conversation, and the beginning of the answer to it.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"};

}  // namespace

ZImageModel::ZImageModel(const ModelFiles& files, const ModelOptions& options) : Model(files, options) {
  auto sources = find_sources(files_);
  read_configs(sources);
  fill_names();
  add_components(sources);
  auto scheduler = read_scheduler(files_);
  process_ = std::make_unique<diffusion::FlowProcess>(
      scheduler ? diffusion::flow_sampler_config(*scheduler) : diffusion::FlowSamplerConfig{.shift = 3.0, .use_dynamic_shifting = false});
}

void ZImageModel::read_configs(const Sources& sources) {
  const auto& [dit, text, vae] = sources;
  if (dit.entry) config_ = detect(dit.entry->config.is_null() ? nullptr : &dit.entry->config, dit.shapes());
  if (text.entry) text_config_ = text::qwen_config(text.entry->config, text.shapes());
  if (vae.entry) vae_config_ = models::vae::kl_config(vae.entry->config, vae.shapes());
  check_latents(dit, config_.latent_channels, vae, vae_config_.latent_channels);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config_.width);
}

// ai-toolkit and ComfyUI have our paths behind "diffusion_model.", DiffSynth-Studio behind nothing, kohya's files ours or the original ones
// with underscores.
void ZImageModel::fill_names() {
  names_.family = "zimage";
  names_.variant = "Z-Image";
  names_.denoisers = {"dit"};
  names_.components = {
      {"dit",
       {.layers = {.weights = "",
                   .diffusers = "transformer.",
                   .kohya = "lora_unet_",
                   .others = {"lora_transformer_"},
                   .diffusers_alpha = false,
                   .comfyui = "diffusion_model.",
                   .diffsynth = ""},
        .lora_targets = "to_q,to_k,to_v,to_out.0,w1,w2,w3",
        .high_precision = {"all_x_embedder\\..*", "cap_embedder\\..*", "t_embedder\\..*", ".*adaLN_modulation\\..*",
                           "all_final_layer\\..*"},
        .foreign_layers = foreign_layers(config_),
        .single_file = {"model.diffusion_model.", original_keys()}}},
      {"text_encoder", qwen_names("text_encoder", text_config_, num_text_layers(), "lora_te_", "text_encoders.qwen3_4b.transformer.")},
      {"vae", autoencoder_names("vae", vae_config_, "vae.")},
  };
  names_.values = {
      {"latents", {.shape = {-1, config_.latent_channels, -1, -1}, .diffsynth = "input_latents"}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
  };
}

void ZImageModel::add_components(const Sources& sources) {
  components_.add({
      .name = "dit",
      .what = "transformer",
      .source = sources.dit,
      .build = [this](const std::string& part,
                      const at::TensorOptions& options) { return std::make_unique<Transformer>(config_, options, part_of(part)); },
      .initialise = [this](nn::Module& whole) { static_cast<Transformer&>(whole).initialise(options_.seed); },
      .settings = [this](const std::string& /*part*/) { return split_ ? fmt::format("split after {} layers", *split_) : ""; },
  });
  auto text = qwen_recipe("text_encoder", sources.text_encoder, text_config_);
  text.tokenizer = {.folder = [this] { return tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "Qwen"); },
                    .load = [](const auto& folder) { return tokenizers::load_qwen(folder, kChat); },
                    .limit = [this](const auto&) { return text_length(); },
                    .option = "max_sequence_length",
                    .vocab_size = text_config_.vocab_size};
  text.settings = [this](const std::string&) { return fmt::format("max_sequence_length {}", text_length()); };
  components_.add(text);
  vae_config_.tile_size = options_.get<int64_t>("vae_tile_size");
  components_.add(autoencoder_recipe("vae", sources.vae, vae_config_));
}

Part ZImageModel::part_of(const std::string& name) const {
  if (name == kFirst) return {.end = *split_};
  if (name == kLast) return {.start = false, .begin = *split_};
  return {};
}

std::string ZImageModel::split_first_blocks(const std::function<bool(const std::string& path)>& trains) {
  split_ = config_.num_layers;
  const std::string layers = "layers.";
  for (const auto& [path, slot] : components_.skeleton("dit")->parameters()) {
    if (!trains(path) || path.starts_with("all_final_layer.")) continue;
    if (!path.starts_with(layers)) split_.reset();
    if (!split_) break;
    split_ = std::min<int64_t>(*split_, std::stoll(path.substr(layers.size())));
  }
  components_.set_parts("dit", split_ ? std::vector<std::string>{kFirst, kLast} : std::vector<std::string>{});
  return split_ ? kFirst : "";
}

std::vector<int64_t> ZImageModel::latent_shape(const Extent& extent) const {
  check_picture(extent);
  return {vae_config_.latent_channels, extent.height / vae_config_.downsampling(), extent.width / vae_config_.downsampling()};
}

int64_t ZImageModel::text_length() const { return prompt_length(options_, 512); }

void ZImageModel::encode_prompt(pipeline::Scope& scope) {
  encode_by_qwen(scope, components_, options_.device, num_text_layers(), text_length());
}

/// What every part of the transformer reads.
Transformer::Inputs ZImageModel::inputs(pipeline::Scope& scope) const {
  Transformer::Inputs in;
  in.noisy_BCHW = scope.tensor("noisy");
  in.mask_BT = scope.tensor("text_mask").to(options_.device);
  return in;
}

void ZImageModel::denoise(pipeline::Scope& scope) {
  scope.uses("dit");
  auto in = inputs(scope);
  in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  in.sigma_B = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("prediction", loaded<Transformer>("dit").forward(in).velocity_BCHW);
}

void ZImageModel::run_first_blocks(pipeline::Scope& scope) {
  scope.uses(kFirst);
  auto in = inputs(scope);
  in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  in.sigma_B = scope.tensor("sigma").to(options_.device, at::kFloat);
  auto out = loaded<Transformer>(kFirst).forward(in);
  scope.write("hidden_states", out.hidden_BLD);
  scope.write("conditioning", out.conditioning_BC);
}

void ZImageModel::finish_blocks(pipeline::Scope& scope) {
  scope.uses(kLast);
  auto in = inputs(scope);
  in.hidden_BLD = scope.tensor("hidden_states");
  in.conditioning_BC = scope.tensor("conditioning");
  scope.write("prediction", loaded<Transformer>(kLast).forward(in).velocity_BCHW);
}

pipeline::Units ZImageModel::denoise_units() {
  using pipeline::Scope;
  if (!split_)
    return {{"denoise", {"noisy", "sigma", "text_embedding", "text_mask"}, {"prediction"}, {"dit"}, [this](Scope& s) { denoise(s); }}};
  return {{"run_first_blocks",
           {"noisy", "sigma", "text_embedding", "text_mask"},
           {"hidden_states", "conditioning"},
           {kFirst},
           [this](Scope& s) { run_first_blocks(s); }},
          {"denoise", {"noisy", "text_mask", "hidden_states", "conditioning"}, {"prediction"}, {kLast}, [this](Scope& s) {
             finish_blocks(s);
           }}};
}

UnitGroups ZImageModel::units() {
  using pipeline::Scope;
  UnitGroups groups;
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  groups.encode_image = latent_units(options_.latents, "vae", [this](const at::Tensor& image) {
    return loaded<vae::AutoencoderKL>("vae").encode(image.to(options_.device));
  });
  groups.add_noise = noise_units(*process_);
  groups.denoise = denoise_units();
  groups.decode = decode_units("vae", [this](const at::Tensor& latents) { return loaded<vae::AutoencoderKL>("vae").decode(latents); });
  return groups;
}

}  // namespace burnish::models::zimage
