#include "models/families/anima/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <fmt/core.h>

#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/blocks/padding_row.h"
#include "models/families/anima/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/shared_units.h"

namespace burnish::models::anima {

namespace {

const std::string kEncoder = "text_encoder", kConditioner = "text_conditioner";
/// The conditioner's vocabulary, which has no weights: tokens of a text do not change while the conditioner trains.
const std::string kTokens = "text_conditioner.tokens", kConditionerBody = "text_conditioner.body";
/// Tokens of a text, the text encoder's and T5's, as Anima was trained.
constexpr int64_t kTextLength = 512;

}  // namespace

text::QwenConfig qwen3_06b() { return {.width = 1024, .hidden = 3072, .num_layers = 28, .num_heads = 16}; }

AnimaModel::AnimaModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, conditioner, text, vae] = find_sources(files_);
  if (dit.entry && !conditioner.entry)
    data_error(
        "models",
        "{} is a transformer of Cosmos-Predict2, which is not supported without the text conditioner that Anima has (llm_adapter, or "
        "the folder text_conditioner); name its file with a further --model",
        dit.entry->label);
  config_ = read_named(dit, detect);
  conditioner_ = read_named(conditioner, detect_conditioner);
  const auto text_config = read_named(text, text::qwen_config, qwen3_06b());
  num_text_layers_ = text_config.num_layers;
  autoencoder_ = causal_part(vae, options_);
  check_latents(dit, config_.in_channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, conditioner, "text conditioner", conditioner_.width);
  check_widths(conditioner, "texts", conditioner_.source_width, text, "text encoder", text_config.width);
  add_transformer(dit);
  add_conditioner(conditioner);
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3_06b.transformer.", .length = kTextLength}, .num_read = num_text_layers_};
  auto encoder = qwen_part(text, text_config, use, files_, options_);
  // diffusers' folder has a model without a head, whose paths are ours.
  encoder.names.layers.weights = "";
  encoder.names.folder_file = {};
  add(encoder);
  add(autoencoder_, /*patch=*/2);
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {.shift = 3.0, .use_dynamic_shifting = false}),
                                                      diffusion::GridConfig{.last = 0});
}

// diffusers, SimpleTuner and OneTrainer have our paths, ai-toolkit ours or the original ones, ComfyUI, sd-scripts and DiffSynth-Studio the
// original ones.
void AnimaModel::add_transformer(const Source& source) {
  auto recipe =
      denoiser_.recipe(source, config_, {.stacks = {{"transformer_blocks.", config_.num_layers}}, .behind = {"norm_out", "proj_out"}});
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_transformer_",
                          .others = {"lora_unet_"},
                          .diffusers_alpha = false,
                          .comfyui_alpha = false},  // diffusers' loader refuses a file with one
               .lora_targets = "to_q,to_k,to_v,to_out.0,ff.net.0.proj,ff.net.2",
               .high_precision = {"patch_embed\\..*", "time_embed\\..*", ".*norm[123]\\.linear_[12]", "norm_out\\..*", "proj_out"},
               .foreign_layers = foreign_layers(config_),
               .written = written_layers(config_),
               .single_file = {"net.", original_keys()},
               .aliases = target_names});
}

void AnimaModel::add_conditioner(const Source& source) {
  Recipe recipe{.name = kConditioner,
                .what = "text conditioner",
                .source = source,
                .build = [config = conditioner_](const std::string& part, const at::TensorOptions& o) -> std::unique_ptr<nn::Module> {
                  if (part == kTokens) return std::make_unique<nn::Module>();
                  return std::make_unique<Conditioner>(config, o);
                },
                .parts = {kTokens, kConditionerBody}};
  recipe.settings = [this](const std::string& part) {
    return part == kTokens ? fmt::format("max_sequence_length {}", prompt_length(options_, kTextLength)) : "";
  };
  recipe.tokenizer = {.folder = [this] { return tokenizer_folder(files_, options_.tokenizer_2_path, "t5_tokenizer", "T5", "tokenizer_2"); },
                      .load = tokenizers::load_t5,
                      .limit = [this](const tokenizers::Tokenizer&) { return prompt_length(options_, kTextLength); },
                      .option = "max_sequence_length",
                      .vocab_size = conditioner_.vocab_size};
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "text_conditioner.",
                          .kohya = "lora_unet_llm_adapter_",
                          .others = {"llm_adapter.", "lora_text_conditioner_"},
                          .diffusers_alpha = false,
                          .comfyui_alpha = false,
                          .comfyui = "diffusion_model.llm_adapter.",
                          .diffsynth = "llm_adapter."},
               .lora_targets = "q_proj,k_proj,v_proj,o_proj,mlp.0,mlp.2",
               .high_precision = {"out_proj"},
               .single_file = {"net.llm_adapter.", {}}});
}

void AnimaModel::fill_names() {
  names_.family = "anima";
  names_.variant = "Anima";
  names_.file_words.base_version = "anima";
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = {"input_latents"}}},
      // Its states there are filled up, and all of them are read.
      {"text_embedding", {.shape = {-1, -1, conditioner_.source_width}, .diffsynth = {"prompt_emb"}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text("prompt_emb"), .of_prompt = true, .padded = true}},
      {"t5_ids", {.shape = {-1, -1}, .diffsynth = {"t5xxl_ids"}, .of_prompt = true, .padded = true}},
      {"t5_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text("t5xxl_ids"), .of_prompt = true, .padded = true}},
      {"text_rows", {.padded = true}},
      {"text_counts", {.padded = true}},
  };
}

void AnimaModel::read_tokens(pipeline::Scope& scope) {
  scope.uses(kTokens);
  auto encoded = components_.tokenizer(kConditioner).encode_padded(scope.text("prompt"), token_limit(components_, kConditioner));
  bool is_named = components_.source(kConditioner).entry->is_sizes;  // of which no text is known; it may be as long as any
  if (!is_named) encoded.ids.resize(static_cast<size_t>(encoded.num_tokens));
  scope.write("t5_ids", as_batch(encoded.ids, options_.device));
  scope.write("t5_mask", at::ones({1, std::ssize(encoded.ids)}, at::TensorOptions().dtype(at::kFloat).device(options_.device)));
}

void AnimaModel::condition(pipeline::Scope& scope) {
  scope.uses(kConditionerBody);
  auto here = [&](const std::string& name) { return scope.tensor(name).to(options_.device); };
  const auto mask = here("t5_mask").to(at::kFloat);
  auto rows = loaded<Conditioner>(kConditionerBody)
                  .forward({.ids_BT = here("t5_ids"),
                            .mask_BT = mask,
                            .source_BSE = here("text_embedding").to(options_.dtype),
                            .mask_BS = here("text_mask")});
  auto counted = with_padding_row({rows, mask}, conditioner_.num_rows);
  scope.write("text_rows", counted.rows_BTE);
  scope.write("text_counts", counted.counts_BT);
}

at::Tensor AnimaModel::modulate(pipeline::Scope& scope, const std::string& part) {
  const auto& transformer = denoiser_.loaded(part);
  if (part.starts_with(FirstBlocks::kLast)) return transformer.modulate(scope.tensor("conditioning"));
  auto conditioning = transformer.condition(denoiser_.time(scope), options_.dtype);
  if (denoiser_.blocks().count > 0) scope.write("conditioning", conditioning);
  return transformer.modulate(conditioning);
}

void AnimaModel::give(pipeline::Scope& scope, bool /*goes_on*/, Transformer::Inputs& in) const {
  in.text_BTE = scope.tensor("text_rows").to(options_.dtype);
  in.counts_BT = scope.tensor("text_counts").to(options_.device);
}

// What is drawn while a run trains the conditioner has to be of its weights of that step, so it stands beside the denoiser.
UnitGroups AnimaModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {{"encode_prompt",
                           {"prompt"},
                           {"text_embedding", "text_mask"},
                           {kEncoder},
                           [this](Scope& s) { encode_by_qwen(s, components_, options_.device, num_text_layers_); }},
                          {"read_tokens", {"prompt"}, {"t5_ids", "t5_mask"}, {kTokens}, [this](Scope& s) { read_tokens(s); }}};
  groups.denoise = denoiser_.units({.reads = {"noisy", "text_rows", "text_counts", "modulation"},
                                    .modulate = std::bind_front(&AnimaModel::modulate, this),
                                    .give = std::bind_front(&AnimaModel::give, this)});
  groups.denoise.insert(groups.denoise.begin(), {"condition",
                                                 {"text_embedding", "text_mask", "t5_ids", "t5_mask"},
                                                 {"text_rows", "text_counts"},
                                                 {kConditionerBody},
                                                 [this](Scope& s) { condition(s); }});
  return groups;
}

}  // namespace burnish::models::anima
