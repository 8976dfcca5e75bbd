#include "models/families/zimage/model.h"

#include <fmt/core.h>

#include <algorithm>

#include "diffusion/flow_process.h"
#include "models/families/zimage/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/shared_units.h"

namespace burnish::models::zimage {

namespace {

const std::string kFirst = "dit.first_blocks", kLast = "dit.last_blocks";
/// The user's turn of a conversation, and the beginning of the answer to it.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"};

}  // namespace

ZImageModel::ZImageModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, text, vae] = find_sources(files_);
  config_ = read_named(dit, detect);
  auto text_config = read_named(text, text::qwen_config);
  autoencoder_ = kl_part(vae, options_);
  check_latents(dit, config_.latent_channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  add_transformer(dit);
  num_text_layers_ = std::max<int64_t>(text_config.num_layers - 1, 0);
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3_4b.transformer.", .length = 512}, .chat = kChat, .num_read = num_text_layers_};
  add(qwen_part(text, text_config, use, files_, options_));
  add(autoencoder_, /*patch=*/2);
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {.shift = 3.0, .use_dynamic_shifting = false}),
                                                      diffusion::GridConfig{.last = 0});
}

// ai-toolkit and ComfyUI have our paths behind "diffusion_model.", DiffSynth-Studio behind nothing, kohya's files ours or the original ones
// with underscores.
void ZImageModel::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, [this](const std::string& part) { return part_of(part); });
  recipe.settings = [this](const std::string& /*part*/) { return split_ ? fmt::format("split after {} layers", *split_) : ""; };
  add(recipe,
      {.layers = {.weights = "",
                  .diffusers = "transformer.",
                  .kohya = "lora_unet_",
                  .diffusers_alpha = false,
                  .onetrainer = "lora_transformer_",
                  .comfyui = "diffusion_model.",
                  .diffsynth = ""},
       .lora_targets = "to_q,to_k,to_v,to_out.0,w1,w2,w3",
       .high_precision = {"all_x_embedder\\..*", "cap_embedder\\..*", "t_embedder\\..*", ".*adaLN_modulation\\..*", "all_final_layer\\..*"},
       .foreign_layers = foreign_layers(config_),
       .single_file = {"model.diffusion_model.", original_keys()}});
}

void ZImageModel::fill_names() {
  names_.family = "zimage";
  names_.variant = "Z-Image";
  names_.file_words = {"Z-Image", "https://github.com/Tongyi-MAI/Z-Image", "zimage"};
  names_.tokens = TokenNames{.width = config_.width, .picture_is_first = true};
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.latent_channels, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding",
       {.shape = {-1, -1, config_.caption_width}, .diffsynth = text_in_list("prompt_embeds"), .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text_in_list("prompt_embeds"), .of_prompt = true, .padded = true}},
  };
}

HeldLayers ZImageModel::part_of(const std::string& name) const {
  if (name == kFirst) return {.end = *split_};
  if (name == kLast) return {.start = false, .begin = *split_};
  return {};
}

std::string ZImageModel::split_first_blocks(const Trains& trains) {
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

void ZImageModel::encode_prompt(pipeline::Scope& scope) { encode_by_qwen(scope, components_, options_.device, num_text_layers_); }

/// Returns what every part of the transformer reads.
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

UnitGroups ZImageModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  groups.denoise = denoise_units();
  return groups;
}

}  // namespace burnish::models::zimage
