#include "models/families/ernie_image/model.h"

#include <algorithm>
#include <functional>

#include "diffusion/flow_process.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/shared_units.h"

namespace burnish::models::ernie_image {

namespace {

/// What stands before the text encoder's layers in diffusers' folders, whose Mistral3Model sees too.
const std::string kTextWeights = "language_model.model.";
/// Tokens of a text unless the user asks for others, as OneTrainer has it. diffusers cuts none.
constexpr int64_t kTextLength = 512;

}  // namespace

ErnieImageModel::ErnieImageModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, text, vae] = find_sources(files_);
  config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::ministral3_config, text::ministral3_3b());
  autoencoder_ = patch_part(vae, options_);
  check_latents(dit, config_.in_channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  add_transformer(dit);
  add_text_encoder(text, text_config);
  add(autoencoder_, /*patch=*/1);
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {.shift = 3.0, .use_dynamic_shifting = false}),
                                                      diffusion::GridConfig{.last = 0});
}

// All programs have our paths: ai-toolkit and ComfyUI behind "diffusion_model.", DiffSynth-Studio behind nothing, kohya's files and
// OneTrainer's with underscores.
void ErnieImageModel::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(source, config_, {.stacks = {{"layers.", config_.num_layers}}, .behind = {"final_linear"}});
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .diffusers_alpha = false,
                          .onetrainer = "lora_transformer_",
                          .comfyui = "diffusion_model.",
                          .diffsynth = ""},
               .lora_targets = "to_q,to_k,to_v,to_out.0",
               .high_precision = {"x_embedder\\..*", "text_proj", "time_embedding\\..*", "adaLN_modulation\\..*", "final_norm\\..*",
                                  "final_linear"},
               .single_file = {"model.diffusion_model.", {}}});
}

void ErnieImageModel::add_text_encoder(const Source& source, const text::QwenConfig& config) {
  num_text_layers_ = std::max<int64_t>(config.num_layers - 1, 0);
  const QwenUse use{.text = {.comfyui = "text_encoders.ministral3_3b.transformer.", .length = kTextLength},
                    .num_read = num_text_layers_,
                    .kind = "Mistral",
                    .load = tokenizers::load_tekken,
                    .below = kTextWeights};
  add(qwen_part(source, config, use, files_, options_));
}

void ErnieImageModel::fill_names() {
  names_.family = "ernie_image";
  names_.variant = "ERNIE-Image";
  names_.file_words.base_version = "ernie_image";
  names_.tokens = TokenNames{.width = config_.width};
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding",
       {.shape = {-1, -1, config_.caption_width}, .diffsynth = text_in_list("prompt_embeds"), .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text_in_list("prompt_embeds"), .of_prompt = true, .padded = true}},
  };
}

void ErnieImageModel::give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const {
  in.mask_BT = scope.tensor("text_mask").to(options_.device);
  if (!goes_on) in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
}

UnitGroups ErnieImageModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {"text_encoder"}, [this](Scope& s) {
                             encode_by_qwen(s, components_, options_.device, num_text_layers_);
                           }}};
  groups.denoise = denoiser_.units(
      {.reads = {"noisy", "text_mask", "text_embedding", "modulation"},
       .modulate = [this](Scope& s, const auto& part) { return denoiser_.loaded(part).modulate(denoiser_.time(s), options_.dtype); },
       .give = std::bind_front(&ErnieImageModel::give, this)});
  return groups;
}

}  // namespace burnish::models::ernie_image
