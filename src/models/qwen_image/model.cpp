#include "models/qwen_image/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "models/mmdit.h"
#include "models/scheduler_file.h"
#include "models/shared_components.h"
#include "models/shared_units.h"
#include "models/text/resample.h"
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
  control_ = std::make_unique<Control>(files_, options_, config_, sources.dit.entry != nullptr);
  fill_names();
  add_components(sources);
  auto scheduler = read_scheduler(files_);
  process_ = std::make_unique<diffusion::FlowProcess>(
      scheduler ? diffusion::flow_sampler_config(*scheduler)
                : diffusion::FlowSamplerConfig{.max_shift = 0.9, .max_image_seq_len = 8192, .shift_terminal = 0.02});
}

void QwenImageModel::read_configs(const Sources& sources) {
  const auto& [dit, text, image, vae] = sources;
  if (dit.entry) config_ = detect(dit.entry->config.is_null() ? nullptr : &dit.entry->config, dit.shapes());
  text_config_ = text.entry ? text::qwen_config(text.entry->config, text.shapes()) : published_text_config();
  if (image.entry && options_.references) vision_config_ = text::vision_config(image.entry->config, image.shapes());
  if (options_.references) pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"));
  naming_ = naming_of(options_.get<std::string>("reference_prompt"), files_);
  auto is_mark = [](const std::string& name) { return name.ends_with(kZeroMark); };
  bool is_marked = dit.entry && dit.entry->tensors && std::ranges::any_of(dit.entry->tensors->names(), is_mark);
  config_.zero_cond_t |= is_marked || options_.get<bool>("zero_cond_t");
  if (vae.entry) vae_config_ = models::vae::causal_config(vae.entry->config, vae.shapes());
  check_latents(dit, config_.in_channels / 4, vae, vae_config_.latent_channels);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config_.width);
}

// ai-toolkit and ComfyUI have our paths behind "diffusion_model.", DiffSynth-Studio behind nothing, kohya's and musubi-tuner's files with
// underscores.
void QwenImageModel::fill_names() {
  names_.family = "qwen_image";
  bool edits = published_naming(files_).has_value() || config_.zero_cond_t;
  if (edits) names_.expected_references = kReferenceColumn;
  if (config_.zero_cond_t) names_.marks.emplace_back(kZeroMark);
  names_.variant = edits || options_.references ? "Qwen-Image-Edit" : "Qwen-Image";
  names_.denoisers = {"dit"};
  if (options_.references) names_.reference_column = kReferenceColumn;
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
  control_->add_names(names_);
  if (options_.references) names_.components["image_encoder"] = vision_names("image_encoder", "lora_vis_");
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
      .settings = [this](const std::string& part) { return denoiser_settings(part); },
  });
  auto text = qwen_recipe("text_encoder", sources.text_encoder, text_config_);
  text.tokenizer = {.folder = [this] { return tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "Qwen"); },
                    .load = [this](const auto& folder) -> std::unique_ptr<tokenizers::Tokenizer> {
                      auto tokenizer = tokenizers::load_qwen(folder, kChat);
                      if (options_.references) picture_token(*tokenizer);
                      return tokenizer;
                    },
                    .limit = [this](const auto& tokenizer) { return tokenizer.num_before() + text_length(); },
                    .option = "max_sequence_length",
                    .vocab_size = text_config_.vocab_size};
  text.settings = [this](const std::string&) { return fmt::format("max_sequence_length {}", text_length()); };
  components_.add(text);
  if (options_.references) components_.add(vision_recipe("image_encoder", sources.image_encoder, vision_config_, pixels_));
  vae_config_.tile_size = options_.get<int64_t>("vae_tile_size");
  components_.add(causal_autoencoder_recipe("vae", sources.vae, vae_config_));
  control_->add_components(components_);
}

diffusion::Guide QwenImageModel::guide() const { return guide_tokens; }

std::vector<int64_t> QwenImageModel::latent_shape(const Extent& extent) const {
  check_picture(extent);
  return {vae_config_.latent_channels, extent.height / vae_config_.downsampling(), extent.width / vae_config_.downsampling()};
}

int64_t QwenImageModel::text_length() const { return prompt_length(options_, 1024); }

int64_t QwenImageModel::reference_area() const {
  auto chosen = options_.get<int64_t>("reference_pixels");
  return chosen > 0 ? chosen : kReferenceArea;
}

std::string QwenImageModel::denoiser_settings(const std::string& part) const {
  return part != kBody && config_.zero_cond_t && options_.references ? "reference pictures by the time 0" : "";
}

void QwenImageModel::see_references(pipeline::Scope& scope) {
  scope.uses("image_encoder");
  auto& tower = loaded<text::QwenVision>("image_encoder");
  pipeline::Value seen = scope.value("reference_images");
  auto area = is_numbered(naming_, std::get<pipeline::TensorLists>(seen).at(0).size()) ? kNumberedArea : reference_area();
  pipeline::change_tensors(seen, [&](const at::Tensor& image) {
    return tower.forward(text::patches_of(levels_at(image.to(options_.device), area), vision_config_, pixels_));
  });
  scope.write("seen_references", std::move(seen));
}

void QwenImageModel::encode_prompt(pipeline::Scope& scope) {
  if (options_.references) {
    if (const auto& seen = scope.lists("seen_references").at(0); !seen.empty()) return encode_edit_prompt(scope, seen);
  }
  const auto num_before = components_.tokenizer("text_encoder").num_before();
  encode_by_qwen(scope, components_, options_.device, text_config_.num_layers, num_before + text_length(), num_before);
}

void QwenImageModel::encode_edit_prompt(pipeline::Scope& scope, const std::vector<at::Tensor>& seen) {
  scope.uses("text_encoder");
  const auto& tokenizer = components_.tokenizer("text_encoder");
  bool is_named = components_.source("text_encoder").entry->is_sizes;
  auto text = is_named ? longest_edit_text(seen, text_length())
                       : edit_text(static_cast<const tokenizers::ChatTokenizer&>(tokenizer), scope.text("prompt"), seen,
                                   is_numbered(naming_, seen.size()), text_length());
  auto ids_BL = at::tensor(text.ids, at::TensorOptions().dtype(at::kLong)).unsqueeze(0).to(options_.device);
  auto states = loaded<text::QwenEncoder>("text_encoder").forward(ids_BL, {text_config_.num_layers}, text.pictures).front();
  write_text(scope, states.narrow(1, text.num_dropped, states.size(1) - text.num_dropped));
}

void QwenImageModel::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(kModulation).modulate(sigma, options_.dtype, options_.references));
}

void QwenImageModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  std::vector<at::Tensor> references;
  if (options_.references) references = stack_lists(scope.lists("latents_of_references"));
  Transformer::Inputs in{.noisy_BCHW = scope.tensor("noisy"),
                         .references = references,
                         .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                         .mask_BT = scope.tensor("text_mask").to(options_.device),
                         .modulation_BM = scope.tensor("modulation")};
  if (control_->is_read()) {
    scope.uses(kBlockwise);
    const auto& control = loaded<BlockwiseControlNet>(kBlockwise);
    auto embedded = control.embed(mmdit::to_tokens(scope.tensor("control_latents")).to(options_.device, options_.dtype));
    in.after_block = [&control, embedded](int64_t block, const at::Tensor& image_BID) {
      return control.forward(block, image_BID, embedded);
    };
  }
  scope.write("prediction", loaded<Transformer>(kBody).forward(in));
}

pipeline::Units QwenImageModel::prompt_units() {
  using pipeline::Scope;
  const std::vector<std::string> writes{"text_embedding", "text_mask"};
  if (!options_.references) return {{"encode_prompt", {"prompt"}, writes, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  pipeline::Units units{
      {"see_references", {"reference_images"}, {"seen_references"}, {"image_encoder"}, [this](Scope& s) { see_references(s); }},
      {"encode_prompt", {"prompt", "seen_references"}, writes, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  for (auto& unit : units) unit.settings = fmt::format("reference_prompt {}, reference_pixels {}", word_of(naming_), reference_area());
  return units;
}

UnitGroups QwenImageModel::units() {
  using pipeline::Scope;
  UnitGroups groups;
  groups.encode_prompt = prompt_units();
  auto encode = [this](const at::Tensor& image) { return loaded<vae::CausalAutoencoder>("vae").encode(image.to(options_.device)); };
  groups.encode_image = latent_units(options_.latents, "vae", encode);
  if (options_.references) {
    groups.encode_references = reference_picture_units("vae", [this, encode](const at::Tensor& image_13HW) {
      return encode(text::from_levels(levels_at(image_13HW[0].to(options_.device), reference_area())).unsqueeze(0));
    });
    groups.encode_references.front().settings = fmt::format("reference_pixels {}", reference_area());
  }
  for (auto& unit :
       control_->encode_units(vae_config_.downsampling(), [encode](const at::Tensor& image) { return encode(image).mean_BCHW; }))
    groups.encode_references.push_back(std::move(unit));
  groups.add_noise = noise_units(*process_);
  std::vector<std::string> reads{"noisy", "text_embedding", "text_mask", "modulation"}, runs{kBody};
  if (options_.references) reads.emplace_back("latents_of_references");
  if (control_->is_read()) {
    reads.emplace_back("control_latents");
    runs.push_back(kBlockwise);
  }
  groups.denoise = {{"modulate", {"sigma"}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
                    {"denoise", reads, {"prediction"}, runs, [this](Scope& s) { denoise(s); }}};
  groups.decode = decode_units("vae", [this](const at::Tensor& latents) { return loaded<vae::CausalAutoencoder>("vae").decode(latents); });
  return groups;
}

}  // namespace burnish::models::qwen_image
