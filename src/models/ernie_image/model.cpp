#include "models/ernie_image/model.h"

#include <fmt/core.h>

#include <algorithm>

#include "diffusion/flow_process.h"
#include "models/diffsynth_values.h"
#include "models/mmdit_names.h"
#include "models/scheduler_file.h"
#include "models/shared_units.h"

namespace burnish::models::ernie_image {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body";
const std::string kFirstBlocks = "dit.first_blocks", kLastBlocks = "dit.last_blocks";  // the first with the modulation
const std::string kFirstModulation = kFirstBlocks + ".modulation", kFirstBody = kFirstBlocks + ".body";
/// What stands before the text encoder's layers in diffusers' folders, whose Mistral3Model sees too.
const std::string kTextWeights = "language_model.model.";
/// Tokens of a text unless the user asks for others, as OneTrainer has it. diffusers cuts none.
constexpr int64_t kTextLength = 512;

}  // namespace

ErnieImageModel::ErnieImageModel(const ModelFiles& files, const ModelOptions& options) : Model(files, options) {
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

mmdit::Part ErnieImageModel::part_of(const std::string& name) const {
  auto part = mmdit::part_named(name);
  if (name.starts_with(kFirstBlocks)) part.end = num_first_;
  if (name == kLastBlocks) part = {.modulation = false, .begin = num_first_};
  return part;
}

// All programs have our paths: ai-toolkit and ComfyUI behind "diffusion_model.", DiffSynth-Studio behind nothing, kohya's files and
// OneTrainer's with underscores.
void ErnieImageModel::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, [this](const std::string& part) { return part_of(part); });
  recipe.parts = {kModulation, kBody};
  recipe.settings = [this](const std::string& part) {
    return part == kFirstBody || part == kLastBlocks ? fmt::format("split after {} layers", num_first_) : std::string();
  };
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .others = {"lora_transformer_"},
                          .diffusers_alpha = false,
                          .comfyui = "diffusion_model.",
                          .diffsynth = ""},
               .lora_targets = "to_q,to_k,to_v,to_out.0",
               .high_precision = {"x_embedder\\..*", "text_proj", "time_embedding\\..*", "adaLN_modulation\\..*", "final_norm\\..*",
                                  "final_linear"},
               .single_file = {"model.diffusion_model.", {}}});
}

void ErnieImageModel::add_text_encoder(const Source& source, const text::QwenConfig& config) {
  num_text_layers_ = std::max<int64_t>(config.num_layers - 1, 0);
  const QwenUse use{.text = {.comfyui = kTextInComfyui, .length = kTextLength},
                    .num_read = num_text_layers_,
                    .kind = "Mistral",
                    .load = tokenizers::load_tekken};
  auto part = qwen_part(source, config, use, files_, options_);
  part.names.layers.weights = kTextWeights;
  part.names.folder_file.keys = text::qwen_keys_below(kTextWeights);
  add(part);
}

void ErnieImageModel::fill_names() {
  names_.family = "ernie_image";
  names_.variant = "ERNIE-Image";
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding",
       {.shape = {-1, -1, config_.caption_width}, .diffsynth = text_in_list("prompt_embeds"), .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text_in_list("prompt_embeds"), .of_prompt = true, .padded = true}},
  };
}

// The modulation is one for all layers, so none stays as it is where that trains.
std::string ErnieImageModel::split_first_blocks(const std::function<bool(const std::string& path)>& trains) {
  num_first_ = blocks_before_training(*components_.skeleton("dit"), trains, {{"layers.", config_.num_layers}}, {"final_linear"});
  using Parts = std::vector<std::string>;
  components_.set_parts("dit", num_first_ > 0 ? Parts{kFirstModulation, kFirstBody, kLastBlocks} : Parts{kModulation, kBody});
  return num_first_ > 0 ? kFirstBlocks : "";
}

void ErnieImageModel::modulate(pipeline::Scope& scope) {
  const auto& part = num_first_ > 0 ? kFirstModulation : kModulation;
  scope.uses(part);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(part).modulate(sigma, options_.dtype));
}

/// Those of a part of the body: all, the first on the text, or the last on what the first gave.
void ErnieImageModel::run_blocks(pipeline::Scope& scope, const std::string& part, const std::string& result) {
  scope.uses(part);
  Transformer::Inputs in;
  in.noisy_BCHW = scope.tensor("noisy");
  in.mask_BT = scope.tensor("text_mask").to(options_.device);
  if (part == kLastBlocks) in.hidden_BLD = scope.tensor("hidden_states");
  else in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  in.modulation_BM = scope.tensor("modulation");
  scope.write(result, loaded<Transformer>(part).forward(in));
}

pipeline::Units ErnieImageModel::denoise_units() {
  using pipeline::Scope;
  auto unit = [this](const std::string& name, const std::string& read, const std::string& result, const std::string& part) {
    return pipeline::Unit{name, {"noisy", "text_mask", read, "modulation"}, {result}, {part}, [this, part, result](Scope& s) {
                            run_blocks(s, part, result);
                          }};
  };
  const auto& modulation = num_first_ > 0 ? kFirstModulation : kModulation;
  pipeline::Units units{{"modulate", {"sigma"}, {"modulation"}, {modulation}, [this](Scope& s) { modulate(s); }}};
  if (num_first_ == 0) {
    units.push_back(unit("denoise", "text_embedding", "prediction", kBody));
  } else {
    units.push_back(unit("run_first_blocks", "text_embedding", "hidden_states", kFirstBody));
    units.push_back(unit("denoise", "hidden_states", "prediction", kLastBlocks));
  }
  return units;
}

UnitGroups ErnieImageModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {"text_encoder"}, [this](Scope& s) {
                             encode_by_qwen(s, components_, options_.device, num_text_layers_);
                           }}};
  groups.denoise = denoise_units();
  return groups;
}

}  // namespace burnish::models::ernie_image
