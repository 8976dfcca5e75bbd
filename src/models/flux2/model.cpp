#include "models/flux2/model.h"

#include <ATen/ops/cat.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "diffusion/flow_process.h"
#include "models/diffsynth_values.h"
#include "models/flux2/keys.h"
#include "models/mmdit_names.h"
#include "models/scheduler_file.h"
#include "models/shared_units.h"

namespace burnish::models::flux2 {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body";
const std::string kFirstBlocks = "dit.first_blocks", kLastBlocks = "dit.last_blocks";  // the first with the modulation
const std::string kFirstModulation = kFirstBlocks + ".modulation", kFirstBody = kFirstBlocks + ".body";
/// The user's turn of a conversation, and the beginning of an answer that is not thought over.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"};
/// The layers of the text encoder behind which states are read (diffusers: pipeline_flux2_klein.py).
const std::vector<int64_t> kTextLayers{9, 18, 27};

}  // namespace

double empirical_mu(int64_t num_image_tokens, int64_t num_steps) {
  const auto tokens = static_cast<double>(num_image_tokens);
  const double at_200 = 0.00016927 * tokens + 0.45666666, at_10 = 8.73809524e-05 * tokens + 1.89833333;
  if (num_image_tokens > 4300) return at_200;
  return at_200 + (at_200 - at_10) / 190.0 * static_cast<double>(num_steps - 200);
}

Flux2Model::Flux2Model(const ModelFiles& files, const ModelOptions& options) : Model(files, options) {
  const auto [dit, text, vae] = find_sources(files_);
  config_ = read_named(dit, detect);
  auto text_config = read_named(text, text::qwen_config);
  autoencoder_ = patch_part(vae, options_);
  check_latents(dit, config_.in_channels, autoencoder_);
  if (text.entry && text_config.num_layers < kTextLayers.back())
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of FLUX.2 klein",
               text_config.num_layers, kTextLayers.back());
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", std::ssize(kTextLayers) * text_config.width);
  add_transformer(dit);
  const char* in_comfyui = text_config.width > 2560 ? "text_encoders.qwen3_8b.transformer." : "text_encoders.qwen3_4b.transformer.";
  const QwenUse use{.text = {.comfyui = in_comfyui, .length = 512}, .chat = kChat, .num_read = kTextLayers.back()};
  add(qwen_part(text, text_config, use, files_, options_));
  add(autoencoder_, /*patch=*/1);
  fill_names();
  auto sampling = flow_config(files_, {});
  sampling.mu_of = empirical_mu;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.shift = std::exp(0.8), .last = 0});
}

mmdit::Part Flux2Model::part_of(const std::string& name) const {
  auto part = mmdit::part_named(name);
  if (name.starts_with(kFirstBlocks)) part.end = num_first_;
  if (name == kLastBlocks) part = {.modulation = false, .begin = num_first_};
  return part;
}

// diffusers and DiffSynth-Studio have our paths; ai-toolkit, ComfyUI, kohya's files and musubi-tuner the original ones.
void Flux2Model::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, [this](const std::string& part) { return part_of(part); });
  recipe.parts = {kModulation, kBody};
  recipe.settings = [this](const std::string& part) {
    return part == kFirstBody || part == kLastBlocks ? fmt::format("split after {} blocks", num_first_) : std::string();
  };
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .others = {"lora_transformer_"},
                          .diffusers_alpha = false,
                          .comfyui_alpha = false},  // diffusers' loader refuses a file with one
               .lora_targets =
                   "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,linear_in,linear_out,to_qkv_mlp_proj,attn.to_out",
               .high_precision = {"x_embedder", "context_embedder", "time_guidance_embed\\..*", ".*_stream_modulation.*",
                                  "norm_out\\.linear", "proj_out"},
               .foreign_layers = foreign_layers(config_),
               .swapped_halves = swapped_layers(),
               .written = written_layers(config_),
               .single_file = {"model.diffusion_model.", original_keys()}});
}

void Flux2Model::fill_names() {
  names_.family = "flux2";
  names_.variant = "FLUX.2-klein";
  names_.experts = {{"dit"}};
  if (options_.references) names_.reference_column = kReferenceColumn;
  const auto from_tokens = [](const at::Tensor& tokens_NK, int64_t rows, int64_t columns) {
    return tokens_NK.t().reshape({-1, rows, columns});
  };
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = picture_in_tokens("input_latents", "image_ids", from_tokens)}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .diffsynth = {"prompt_embeds"}, .of_prompt = true}},
      {"latents_of_references", {.diffsynth = references_in_tokens("edit_latents", "edit_image_ids", from_tokens)}},
  };
}

// The modulation is one for all blocks, so none stays as it is where that trains.
std::string Flux2Model::split_first_blocks(const std::function<bool(const std::string& path)>& trains) {
  num_first_ =
      blocks_before_training(*components_.skeleton("dit"), trains, config_.num_double_blocks, config_.num_single_blocks, {"proj_out"});
  using Parts = std::vector<std::string>;
  components_.set_parts("dit", num_first_ > 0 ? Parts{kFirstModulation, kFirstBody, kLastBlocks} : Parts{kModulation, kBody});
  return num_first_ > 0 ? kFirstBlocks : "";
}

/// Every text has as many tokens: what stands behind it is attended as well.
void Flux2Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses("text_encoder");
  auto encoded = components_.tokenizer("text_encoder").encode_padded(scope.text("prompt"), token_limit(components_, "text_encoder"));
  auto ids_BL = as_batch(encoded.ids, options_.device);
  auto states = loaded<text::QwenEncoder>("text_encoder").forward(ids_BL, kTextLayers, {}, encoded.num_tokens);
  scope.write("text_embedding", at::cat(states, -1));
}

void Flux2Model::modulate(pipeline::Scope& scope) {
  const auto& part = num_first_ > 0 ? kFirstModulation : kModulation;
  scope.uses(part);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(part).modulate(sigma, options_.dtype));
}

/// Those of a part of the body: all, the first on the text, or the last on what the first gave.
void Flux2Model::run_blocks(pipeline::Scope& scope, const std::string& part, const std::string& result) {
  scope.uses(part);
  Transformer::Inputs in;
  in.noisy_BCHW = scope.tensor("noisy");
  if (options_.references) in.references_BCHW = stack_lists(scope.lists("latents_of_references"));
  if (part == kLastBlocks) in.hidden_BLD = scope.tensor("hidden_states");
  else in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  in.modulation_BM = scope.tensor("modulation");
  scope.write(result, loaded<Transformer>(part).forward(in));
}

pipeline::Units Flux2Model::denoise_units() {
  using pipeline::Scope;
  auto unit = [this](const std::string& name, const std::string& read, const std::string& result, const std::string& part) {
    std::vector<std::string> reads{"noisy", read, "modulation"};
    if (options_.references) reads.emplace_back("latents_of_references");
    return pipeline::Unit{name, reads, {result}, {part}, [this, part, result](Scope& s) { run_blocks(s, part, result); }};
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

UnitGroups Flux2Model::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding"}, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  groups.denoise = denoise_units();
  return groups;
}

}  // namespace burnish::models::flux2
