#include "models/families/flux3/model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/families/flux3/keys.h"
#include "models/files/scheduler_file.h"
#include "models/model/step_end.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/shared_units.h"

namespace burnish::models::flux3 {

namespace {

const std::string kEncoder = "text_encoder", kTime = "sigma", kReferenceModulation = "reference_modulation";
/// What stands before the text encoder's layers in diffusers' folders, whose Qwen3VLForConditionalGeneration sees and speaks too.
const std::string kTextWeights = "model.language_model.";
/// The user's turn of a conversation, and the beginning of an answer.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"};
/// The layers of the text encoder behind which states are read (diffusers: encoders.py of modular_pipelines/flux3).
const std::vector<int64_t> kTextLayers{4, 8, 12, 16, 20, 24, 28, 32};
/// The reference pictures that training had at most.
constexpr int64_t kMostReferences = 10;
/// Texts are filled up to a multiple of so many tokens, all of which the transformer reads.
constexpr int64_t kWindow = 80;
/// The most tokens of a text, and as many as are counted on where no text is known.
constexpr int64_t kTextLength = 8192, kUnknownTextLength = 8 * kWindow;
/// The place of tokens behind a text, which FLUX.3 was trained with.
constexpr double kPlaceBehind = 1;
/// The shift of training and drawing, for all sizes.
constexpr double kShift = 6.93;

/// Places [3, L] of a text's tokens, and of one behind them where there is one.
at::Tensor places_of(int64_t num_tokens, int64_t length) {
  auto places_L = at::arange(length, at::TensorOptions().dtype(at::kDouble));
  places_L.narrow(0, num_tokens, length - num_tokens).fill_(kPlaceBehind);
  return places_L.expand({3, length});
}

}  // namespace

Flux3Model::Flux3Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, text, vae] = find_sources(files_);
  config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::qwen3_vl_config, text::qwen3_vl_4b());
  autoencoder_ = patch_part(vae, options_);
  check_latents(dit, config_.in_channels, autoencoder_);
  if (text.entry && text_config.num_layers < kTextLayers.back())
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of FLUX.3 klein",
               text_config.num_layers, kTextLayers.back());
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", std::ssize(kTextLayers) * text_config.width);
  add_transformer(dit);
  add_text_encoder(text, text_config);
  add(autoencoder_, /*patch=*/1);
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {.shift = kShift, .use_dynamic_shifting = false}),
                                                      diffusion::GridConfig{.shift = kShift, .last = 0});
}

// diffusers and SimpleTuner have our paths; ai-toolkit, ComfyUI and DiffSynth-Studio the original ones.
void Flux3Model::add_transformer(const Source& source) {
  const auto early = config_.num_early_blocks;
  auto recipe = denoiser_.recipe(source, config_,
                                 {.stacks = {{"txt_mode_blocks.", early},
                                             {"mode_blocks.image.", early},
                                             {"mode_blocks.image_cond.", early},
                                             {"single_transformer_blocks.", config_.num_joint_blocks}},
                                  .behind = {"proj_out"},
                                  .num_inseparable = config_.early_blocks()});
  ComponentNames names{.layers = {.weights = "",
                                  .diffusers = "transformer.",
                                  .kohya = "lora_transformer_",
                                  .others = {"lora_unet_"},
                                  .diffusers_alpha = false,
                                  .comfyui_alpha = false},  // diffusers' loader refuses a file with one
                       .lora_targets = "to_q,to_k,to_v,to_out.0,linear_in,linear_out",
                       .high_precision = {"x_embedders\\..*", "context_embedder", "timestep_embedder\\..*", "target_timestep_embedder\\..*",
                                          ".*_stream_modulations\\..*", "norm_out\\.linear", "proj_out"},
                       .foreign_layers = foreign_layers(config_),
                       .swapped_halves = swapped_layers(),
                       .written = written_layers(config_),
                       .single_file = {"model.diffusion_model.", original_keys()},
                       .aliases = target_names};
  if (!options_.references)
    names.without_gradient = {"x_embedders.image_cond", "early_stream_modulations.image_cond", "single_stream_modulations.image_cond",
                              "mode_blocks.image_cond"};
  add(recipe, names);
}

void Flux3Model::add_text_encoder(const Source& source, const text::QwenConfig& config) {
  const bool is_named = source.entry && source.entry->is_sizes;
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3vl_4b.transformer.", .length = is_named ? kUnknownTextLength : kTextLength},
                    .chat = kChat,
                    .num_read = kTextLayers.back(),
                    .below = kTextWeights};
  add(qwen_part(source, config, use, files_, options_));
}

void Flux3Model::fill_names() {
  names_.family = "flux3";
  names_.variant = config_.is_flow_map ? "FLUX.3 klein" : "FLUX.3 klein base";
  names_.tokens = TokenNames{.width = config_.width(), .output = 1};
  names_.experts = {{"dit"}};
  if (options_.references) names_.references.column = kReferenceColumn;
  names_.references.most = kMostReferences;
  const auto from_tokens = [](const at::Tensor& tokens_NK, int64_t rows, int64_t columns) {
    return tokens_NK.t().reshape({-1, rows, columns});
  };
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = picture_in_tokens("input_latents", "image_ids", from_tokens)}},
      {"text_embedding",
       {.shape = {-1, -1, config_.caption_width}, .diffsynth = text_in_list("prompt_tokens"), .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text_in_list("prompt_tokens"), .of_prompt = true, .padded = true}},
      {"text_tokens", {.padded = true}},
      {"latents_of_references", {.diffsynth = references_in_tokens("reference_tokens", "reference_ids", from_tokens)}},
  };
}

/// A window of states, whose tokens behind the text are all alike: one of them is computed.
void Flux3Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto& tokenizer = components_.tokenizer(kEncoder);
  const auto& text = scope.text("prompt");
  const auto limit = token_limit(components_, kEncoder);
  // A model that is only named has no text that is known; it may be as long as any.
  const bool is_named = components_.source(kEncoder).entry->is_sizes;
  const auto num_tokens = is_named ? limit : std::min<int64_t>(std::ssize(tokenizer.encode(text)), limit);
  const auto length = std::min((num_tokens + kWindow - 1) / kWindow * kWindow, limit);
  const auto num_run = std::min(num_tokens + 1, length);
  auto ids_BL = as_batch(tokenizer.encode_padded(text, num_run).ids, options_.device);
  auto states =
      at::cat(loaded<text::QwenEncoder>(kEncoder).forward(
                  ids_BL, text::QwenReading{.after = kTextLayers, .num_tokens = num_tokens, .places_3L = places_of(num_tokens, num_run)}),
              -1);
  if (num_run < length) states = at::cat({states, states.narrow(1, num_tokens, 1).expand({1, length - num_run, states.size(2)})}, 1);
  write_text(scope, states);
}

void Flux3Model::give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const {
  in.mask_BT = scope.tensor("text_mask").to(options_.device);
  if (options_.references) {
    in.references_BCHW = stack_lists(scope.lists("latents_of_references"));
    in.reference_modulation_BM = scope.tensor(kReferenceModulation);
  }
  if (!goes_on) in.text_BTD = scope.tensor("text_tokens");
}

/// `target` is the value that says where a step leads.
pipeline::Units Flux3Model::denoise_units(const std::string& target) {
  std::vector<std::string> times{kTime}, reads{"noisy", "text_tokens", "text_mask", "modulation"};
  if (config_.is_flow_map && target != kTime) times.push_back(target);
  if (options_.references) reads.insert(reads.end(), {"latents_of_references", kReferenceModulation});
  auto modulate = [this, target](pipeline::Scope& scope, const std::string& part) {
    const auto target_B = config_.is_flow_map ? denoiser_.time(scope, target) : at::Tensor();
    auto made = denoiser_.loaded(part).modulate(denoiser_.time(scope), target_B, options_.references, options_.dtype);
    if (options_.references) scope.write(kReferenceModulation, made.references_BM);
    return made.all_BM;
  };
  auto units = denoiser_.units({.reads = reads, .modulate = modulate, .give = std::bind_front(&Flux3Model::give, this), .times = times});
  if (options_.references) units.front().writes.push_back(kReferenceModulation);
  units.insert(units.begin(),
               denoiser_.text_unit("embed_text", {"text_embedding"}, [this](const Transformer& layers, pipeline::Scope& scope) {
                 return layers.embed(scope.tensor("text_embedding").to(options_.dtype));
               }));
  return units;
}

UnitGroups Flux3Model::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {kEncoder}, [this](pipeline::Scope& s) { encode_prompt(s); }}};
  // Where a step leads to its own time, a flow map is the velocity that trains.
  groups.denoise = denoise_units(kTime);
  if (config_.is_flow_map) groups.draw = denoise_units(kStepEnd);
  return groups;
}

}  // namespace burnish::models::flux3
