#include "models/families/ideogram4/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/log.h"
#include "diffusion/flow_process.h"
#include "models/families/ideogram4/captions.h"
#include "models/families/ideogram4/keys.h"
#include "models/families/ideogram4/statistics.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"

namespace burnish::models::ideogram4 {

namespace {

const std::string kDit = "dit", kAway = "unconditional_transformer", kEncoder = "text_encoder";
const std::string kModulation = ".modulation", kText = ".text", kBody = ".body";
/// What stands before the text encoder's layers in diffusers' folders, whose Qwen3VLModel sees too.
const std::string kTextWeights = "language_model.";
/// The user's turn of a conversation, and the beginning of an answer.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"};
/// The layers of the text encoder behind which states are read, the last without the norm behind it (diffusers: pipeline_ideogram4.py).
const std::vector<int64_t> kTextLayers{1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 36};
/// The most tokens of a text, and as many as are counted on where no text is known.
constexpr int64_t kTextLength = 2048, kUnknownTextLength = 1024;
/// The distribution of noise in training, of which the steps of drawing are quantiles.
constexpr const char* kScheme = "ideogram4_shift";
/// One of so many steps, rounded up, is a last one: 3 of 48, 2 of 20 and 1 of 12.
constexpr int64_t kStepsForLast = 16;

/// The order and statistics of latents, by the numbers of a file.
vae::PatchOrder order_by(const Source& autoencoder) {
  const bool has_numbers = autoencoder.tensors && !autoencoder.entry->is_sizes;
  return order_of_latents(has_numbers ? vae::mean_of_latents(*autoencoder.tensors) : at::Tensor());
}

/// Tokens [N, K] of DiffSynth-Studio's caches as latents; their places lie behind those of the text.
DiffsynthValue latents_in_tokens() {
  return {.name = "input_latents", .make = [](const DiffsynthValue::Find& find) -> pipeline::Value {
            const auto tokens = find("input_latents"), places = find("position_ids");
            if (tokens.size() != 1 || places.size() != 1 || tokens[0].dim() != 3 || places[0].dim() != 3 ||
                places[0].size(1) < tokens[0].size(1))
              data_error("models", "'input_latents' and 'position_ids' of a sample are not of one picture");
            const auto num_tokens = tokens[0].size(1);
            const auto of_picture = places[0].narrow(1, places[0].size(1) - num_tokens, num_tokens);
            const auto grid = grids_at(of_picture - of_picture.select(1, 0).unsqueeze(1)).at(0);
            return tokens[0].transpose(1, 2).unflatten(2, {grid.rows, grid.columns});
          }};
}

/// States of the tokens of a text alone, which has zeros behind it where the picture's tokens are.
DiffsynthValue states_in_sequence(bool is_mask) {
  return {.name = "llm_features", .make = [is_mask](const DiffsynthValue::Find& find) -> pipeline::Value {
            const auto states = find("llm_features"), latents = find("input_latents");
            if (states.size() != 1 || latents.size() != 1 || states[0].dim() != 3 || latents[0].dim() != 3 ||
                states[0].size(1) < latents[0].size(1))
              data_error("models", "'llm_features' of a sample are not of a text with its picture's tokens behind it");
            auto of_text = states[0].narrow(1, 0, states[0].size(1) - latents[0].size(1));
            if (is_mask) return at::ones({1, of_text.size(1)}, of_text.options());
            return of_text.contiguous();
          }};
}

}  // namespace

Ideogram4Model::Ideogram4Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, away, text, vae] = find_sources(files_);
  config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::qwen3_vl_config, text::qwen3_vl_8b());
  autoencoder_ = patch_part(vae, options_, order_by(vae));
  check_latents(dit, config_.in_channels, autoencoder_);
  if (text.entry && text_config.num_layers < kTextLayers.back())
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of Ideogram 4",
               text_config.num_layers, kTextLayers.back());
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", std::ssize(kTextLayers) * text_config.width);
  add_transformer(kDit, dit);
  add_transformer(kAway, away);
  add_text_encoder(text, text_config);
  add(autoencoder_, /*patch=*/1);
  fill_names();
  auto sampling = flow_config(files_, {.shift = 1.0, .use_dynamic_shifting = false});
  sampling.quantiles_of = kScheme;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.quantiles_of = kScheme});
}

// diffusers and SimpleTuner have our paths; the published files, ai-toolkit, ComfyUI, musubi-tuner and DiffSynth-Studio the original ones.
void Ideogram4Model::add_transformer(const std::string& name, const Source& source) {
  const bool is_away = name == kAway;
  const auto config = is_away ? read_named(source, detect, config_) : config_;
  auto recipe = transformer_recipe<Transformer>(source, config, options_.seed, mmdit::layers_of_part);
  recipe.name = name;
  recipe.parts = {name + kModulation, name + kText, name + kBody};
  ComponentNames names{
      .layers = {.weights = "",
                 .diffusers = is_away ? "unconditional_transformer." : "transformer.",
                 .kohya = is_away ? "lora_unconditional_transformer_" : "lora_transformer_",
                 .diffusers_alpha = false},
      .lora_targets = "to_q,to_k,to_v,to_out.0,w1,w2,w3",
      .high_precision = {"input_proj", "llm_cond_proj", "t_embedding\\..*", "adaln_proj", ".*adaln_modulation", "final_layer\\..*"},
      .single_file = {is_away ? kAwayInSingleFile : "model.diffusion_model.", original_keys()},
      .aliases = target_names};
  if (is_away) {
    names.without_gradient = {"llm_cond_norm", "llm_cond_proj"};
  } else {
    names.layers.others = {"lora_unet_", "diffusion_model.", "conditional_transformer."};
    names.foreign_layers = foreign_layers(config_);
    names.written = written_layers(config_);
  }
  add(recipe, names);
}

void Ideogram4Model::add_text_encoder(const Source& source, const text::QwenConfig& config) {
  const bool is_named = source.entry && source.entry->is_sizes;
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3vl_8b.transformer.", .length = is_named ? kUnknownTextLength : kTextLength},
                    .chat = kChat,
                    .num_read = kTextLayers.back(),
                    .below = kTextWeights};
  auto part = qwen_part(source, config, use, files_, options_);
  part.names.without_gradient.emplace_back("norm");
  add(part);
}

void Ideogram4Model::fill_names() {
  names_.family = "ideogram4";
  names_.variant = "Ideogram 4";
  names_.file_words.base_version = "ideogram4";
  names_.tokens = TokenNames{.width = config_.width};
  names_.experts = {{kDit}};
  names_.away = Expert{kAway};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = latents_in_tokens()}},
      {"text_embedding",
       {.shape = {-1, -1, config_.caption_width}, .diffsynth = states_in_sequence(false), .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = states_in_sequence(true), .of_prompt = true, .padded = true}},
      {"text_tokens", {.padded = true}},
  };
}

double Ideogram4Model::guidance_at(double scale, int64_t step, int64_t num_steps) const {
  const auto last = options_.get<double>(kLastScale);
  const auto num_last = (num_steps + kStepsForLast - 1) / kStepsForLast;
  return last > 0 && scale > last && step >= num_steps - num_last ? last : scale;
}

/// States of a token's layers lie together number by number: the first of all layers, then the second.
void Ideogram4Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto caption = read_caption(scope.text("prompt"));
  if (!caption.concern.empty() && said_.insert(caption.concern).second) warn("{}", caption.concern);
  auto ids_BL = as_batch(ids_in_chat(components_, kEncoder, kChat, caption.text), options_.device);
  const text::QwenReading reading{.after = kTextLayers, .norms_last = false};
  write_text(scope, at::stack(loaded<text::QwenEncoder>(kEncoder).forward(ids_BL, reading), -1).flatten(2));
}

void Ideogram4Model::embed_text(pipeline::Scope& scope) {
  scope.uses(kDit + kText);
  scope.write("text_tokens", loaded<Transformer>(kDit + kText).embed(scope.tensor("text_embedding").to(options_.dtype)));
}

void Ideogram4Model::modulate(pipeline::Scope& scope, const std::string& part) {
  scope.uses(part);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("conditioning", loaded<Transformer>(part).modulate(sigma, options_.dtype));
}

void Ideogram4Model::denoise(pipeline::Scope& scope) {
  scope.uses(kDit + kBody);
  scope.write("prediction", loaded<Transformer>(kDit + kBody)
                                .forward({.noisy_BCHW = scope.tensor("noisy"),
                                          .text_BTD = scope.tensor("text_tokens"),
                                          .mask_BT = scope.tensor("text_mask").to(options_.device),
                                          .condition_BM = scope.tensor("conditioning")}));
}

void Ideogram4Model::denoise_without_text(pipeline::Scope& scope, const std::string& part) {
  scope.uses(part);
  const std::string alone = "guidance leads away from what the transformer with a text draws without one, since the files have no " + kAway;
  if (!components_.has(kAway) && said_.insert(alone).second) warn("{}; name it with a further --model", alone);
  scope.write("prediction",
              loaded<Transformer>(part).forward({.noisy_BCHW = scope.tensor("noisy"), .condition_BM = scope.tensor("conditioning")}));
}

pipeline::Units Ideogram4Model::units_without_text(const std::string& component) {
  using pipeline::Scope;
  const auto modulation = component + kModulation, body = component + kBody;
  return {{"modulate_without_text", {"sigma"}, {"conditioning"}, {modulation}, [this, modulation](Scope& s) { modulate(s, modulation); }},
          {"denoise_without_text", {"noisy", "conditioning"}, {"prediction"}, {body}, [this, body](Scope& s) {
             denoise_without_text(s, body);
           }}};
}

UnitGroups Ideogram4Model::units_of(const Expert& expert) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  if (expert.component == kAway) {
    groups.denoise = units_without_text(kAway);
    return groups;
  }
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {kEncoder}, [this](Scope& s) { encode_prompt(s); }}};
  groups.denoise = {
      {"embed_text", {"text_embedding"}, {"text_tokens"}, {kDit + kText}, [this](Scope& s) { embed_text(s); }},
      {"modulate", {"sigma"}, {"conditioning"}, {kDit + kModulation}, [this](Scope& s) { modulate(s, kDit + kModulation); }},
      {"denoise", {"noisy", "text_tokens", "text_mask", "conditioning"}, {"prediction"}, {kDit + kBody}, [this](Scope& s) { denoise(s); }}};
  // Where the files lack the transformer that was trained without a text, the other one is run without, as DiffSynth-Studio does.
  groups.draw_away = units_without_text(components_.has(kAway) ? kAway : kDit);
  return groups;
}

}  // namespace burnish::models::ideogram4
