#include "models/families/flux2/model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/families/flux2/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/shared_units.h"

namespace burnish::models::flux2 {

namespace {

/// Holds what reads the texts of a model: behind which of its layers states are read, and what stands around a prompt.
struct Reader {
  const char* model;
  std::vector<int64_t> layers;
  tokenizers::ChatTemplate chat;
};

/// Qwen3 (diffusers: pipeline_flux2_klein.py). The user's turn of a conversation, and the beginning of an answer that is not thought over.
const Reader kQwen{.model = "FLUX.2 klein",
                   .layers = {9, 18, 27},
                   .chat = {"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"}};
/// Mistral-Small (diffusers: pipeline_flux2.py), with this between two words of the system's text.
Reader mistral(const char* between) {
  return {
      .model = "FLUX.2 dev",
      .layers = {10, 20, 30},
      .chat = {fmt::format("<s>[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give structured responses focusing "
                           "on object relationships, object{}attribution and actions without speculation.[/SYSTEM_PROMPT][INST]",
                           between),
               "[/INST]"}};
}
/// The model's makers, diffusers and ComfyUI break a line there, DiffSynth-Studio does not.
const Reader kMistral = mistral("\n"), kMistralInOneLine = mistral(" ");
/// A token for pictures, which is taken out of prompts.
constexpr std::string_view kPictureToken = "[IMG]";
/// What stands before Mistral-Small's layers in diffusers' folders, whose encoder sees too.
const std::string kMistralWeights = "language_model.model.";
constexpr int64_t kTextLength = 512;

std::string without(std::string text, std::string_view word) {
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at)) text.erase(at, word.size());
  return text;
}

constexpr const char* kInOneLine = "in_one_line";

}  // namespace

Option system_text_option() {
  return {.name = "system_text",
          .help =
              "what FLUX.2 dev's text encoder is told before a prompt: by_lines, as the model's makers, diffusers and ComfyUI break it, "
              "or in_one_line, as DiffSynth-Studio has it",
          .otherwise = std::string("by_lines"),
          .elsewhere = "it is of FLUX.2 dev, leave it out",
          .choices = {"by_lines", kInOneLine},
          .about = Option::About::prompts};
}

double empirical_mu(int64_t num_image_tokens, int64_t num_steps) {
  const auto tokens = static_cast<double>(num_image_tokens);
  const double at_200 = 0.00016927 * tokens + 0.45666666, at_10 = 8.73809524e-05 * tokens + 1.89833333;
  if (num_image_tokens > 4300) return at_200;
  return at_200 + (at_200 - at_10) / 190.0 * static_cast<double>(num_steps - 200);
}

Flux2Model::Flux2Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, text, vae] = find_sources(files_);
  config_ = read_named(dit, detect);
  reads_by_mistral_ = text.tensors ? is_mistral(text) : config_.guidance_embeds;
  autoencoder_ = patch_part(vae, options_);
  check_latents(dit, config_.in_channels, autoencoder_);
  if (dit.entry && !config_.guidance_embeds) refuse_given(options_, embedded_guidance_option());
  if (!reads_by_mistral_) refuse_given(options_, system_text_option());
  add_transformer(dit);
  add_text_encoder(dit, text);
  add(autoencoder_, /*patch=*/1);
  fill_names();
  auto sampling = flow_config(files_, {});
  sampling.mu_of = empirical_mu;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.shift = std::exp(0.8), .last = 0});
}

void Flux2Model::add_text_encoder(const Source& dit, const Source& source) {
  const auto& reader = !reads_by_mistral_ ? kQwen : is_in_one_line() ? kMistralInOneLine : kMistral;
  auto config =
      reads_by_mistral_ ? read_named(source, text::mistral_small_config, text::mistral_small_24b()) : read_named(source, text::qwen_config);
  if (source.entry && config.num_layers < reader.layers.back())
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of {}",
               config.num_layers, reader.layers.back(), reader.model);
  check_widths(dit, "texts", config_.caption_width, source, "text encoder", std::ssize(reader.layers) * config.width);
  const char* qwen_in_comfyui = config.width > 2560 ? "text_encoders.qwen3_8b.transformer." : "text_encoders.qwen3_4b.transformer.";
  QwenUse use{.text = {.comfyui = reads_by_mistral_ ? "text_encoders.mistral3_24b.transformer." : qwen_in_comfyui, .length = kTextLength},
              .chat = reader.chat,
              .num_read = reader.layers.back()};
  if (reads_by_mistral_) {
    use.kind = "Mistral";
    use.load = tokenizers::load_tekken;
    use.below = kMistralWeights;
  }
  add(qwen_part(source, config, use, files_, options_));
}

// diffusers and DiffSynth-Studio have our paths; ai-toolkit, ComfyUI, kohya's files and musubi-tuner the original ones.
void Flux2Model::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(
      source, config_, {.stacks = double_then_single(config_.num_double_blocks, config_.num_single_blocks), .behind = {"proj_out"}});
  recipe.settings = [this](const std::string& part) {
    const bool is_told = config_.guidance_embeds && part == denoiser_.blocks().modulation();
    return is_told ? fmt::format("embedded_guidance {}", options_.get<double>("embedded_guidance")) : denoiser_.blocks().settings(part);
  };
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .diffusers_alpha = false,
                          .comfyui_alpha = false,  // diffusers' loader refuses a file with one
                          .onetrainer = "lora_transformer_"},
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
  names_.variant = config_.guidance_embeds ? "FLUX.2-dev" : "FLUX.2-klein";
  const std::string code = "https://github.com/black-forest-labs/flux2";
  const bool is_4b = config_.width() < 4096;
  names_.file_words = config_.guidance_embeds ? FileWords{"Flux.2-dev", code, "flux2"}
                      : is_4b                 ? FileWords{"Flux.2-klein-4b", code, "flux2_klein_4b"}
                                              : FileWords{"Flux.2-klein-9b", code, "flux2_klein_9b"};
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  if (options_.references) names_.references.column = kReferenceColumn;
  const auto from_tokens = [](const at::Tensor& tokens_NK, int64_t rows, int64_t columns) {
    return tokens_NK.t().reshape({-1, rows, columns});
  };
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = picture_in_tokens("input_latents", "image_ids", from_tokens)}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .diffsynth = {"prompt_embeds"}, .of_prompt = true}},
      {"latents_of_references", {.diffsynth = references_in_tokens("edit_latents", "edit_image_ids", from_tokens)}},
  };
}

/// Every text has as many tokens: what it is filled up with is attended as well.
void Flux2Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses("text_encoder");
  auto prompt = scope.text("prompt");
  if (reads_by_mistral_) prompt = without(prompt, kPictureToken);
  auto encoded = components_.tokenizer("text_encoder").encode_padded(prompt, token_limit(components_, "text_encoder"));
  const text::QwenReading reading{.after = (reads_by_mistral_ ? kMistral : kQwen).layers,
                                  .first_token = encoded.first_token,
                                  .num_tokens = encoded.num_tokens,
                                  .norms_last = !reads_by_mistral_};
  auto states = loaded<text::QwenEncoder>("text_encoder").forward(as_batch(encoded.ids, options_.device), reading);
  scope.write("text_embedding", at::cat(states, -1));
}

bool Flux2Model::is_in_one_line() const { return options_.get<std::string>("system_text") == kInOneLine; }

void Flux2Model::give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const {
  if (options_.references) in.references_BCHW = stack_lists(scope.lists("latents_of_references"));
  if (!goes_on) in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
}

pipeline::Units Flux2Model::denoise_units(double guidance) {
  std::vector<std::string> reads{"noisy", "text_embedding", "modulation"};
  if (options_.references) reads.emplace_back("latents_of_references");
  auto modulate = [this, guidance](pipeline::Scope& scope, const std::string& part) {
    auto sigma = denoiser_.time(scope);
    return denoiser_.loaded(part).modulate(sigma, options_.dtype, at::full_like(sigma, guidance));
  };
  return denoiser_.units({.reads = reads, .modulate = modulate, .give = std::bind_front(&Flux2Model::give, this)});
}

UnitGroups Flux2Model::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding"}, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  if (reads_by_mistral_ && is_in_one_line()) groups.encode_prompt.front().settings = "system_text in one line";
  groups.denoise = denoise_units(options_.get<double>("embedded_guidance"));
  if (config_.guidance_embeds) groups.draw = denoise_units(options_.get_for_drawing<double>("embedded_guidance"));
  return groups;
}

}  // namespace burnish::models::flux2
