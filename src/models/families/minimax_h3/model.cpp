#include "models/families/minimax_h3/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/input_error.h"
#include "base/log.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/families/minimax_h3/autoencoder.h"
#include "models/families/minimax_h3/keys.h"
#include "models/families/minimax_h3/places.h"
#include "models/families/minimax_h3/process.h"
#include "models/families/minimax_h3/rows_of_heads.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"

namespace burnish::models::minimax_h3 {

namespace {

const std::string kDit = "dit", kTime = "sigma", kModulation = "dit.modulation", kBody = "dit.body";
/// What stands before the text encoder's layers in diffusers' folders, whose Qwen3VLForConditionalGeneration sees and speaks too.
const std::string kTextWeights = "model.language_model.";
/// The most tokens of a text, and as many as are counted on where no text is known.
constexpr int64_t kTextLength = 8192, kUnknownTextLength = 512;
/// The shifts of training and drawing, for all sizes.
constexpr double kShift = 12, kSoundShift = 3;
/// Values of sound that the denoiser reads and writes.
const std::string kSoundNoisy = kSound + "_noisy", kSoundPrediction = kSound + "_prediction";
/// Frames a second of clips.
constexpr double kFrameRate = 24;

/// Tells once of a clip that is longer than those that the model was made with.
void tell_length(int64_t num_frames) {
  constexpr int64_t kMostFrames = 345;
  static bool is_said = false;
  if (num_frames <= kMostFrames || std::exchange(is_said, true)) return;
  warn(
      "a clip has {} frames, and MiniMax-H3 was made with clips of at most {}, which are {:.3g} s; longer ones are outside of what it "
      "knows",
      num_frames, kMostFrames, static_cast<double>(kMostFrames) / kFrameRate);
}

/// Reads the shift that a folder's scheduler has.
double shift_of(const ModelFiles& files, const std::string& folder, double otherwise) {
  const auto path = files.in_pipeline(folder + "/scheduler_config.json");
  if (!path) return otherwise;
  io::take(io::read_json(*path), "shift", otherwise, folder.c_str());
  if (!(otherwise > 0)) data_error("models", "{}: \"shift\" must be above 0, found {}", path->string(), otherwise);
  return otherwise;
}

/// The layer of the text encoder that a tensor is of, by our names; -1 for what is of none.
int64_t layer_of(const std::string& name) {
  const std::string before = "layers.";
  return name.starts_with(before) ? std::stoll(name.substr(before.size())) : -1;
}

/// Takes what is run of the text encoder, without the layers behind it and the norm behind all, and refuses one that is not long enough.
void cut_text_encoder(Source& text, text::QwenConfig& config) {
  if (!text.entry) return;
  if (config.num_layers < kTextLayers)
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of MiniMax-H3",
               config.num_layers, kTextLayers);
  config.num_layers = kTextLayers;
  config.has_norm = false;
  if (!text.tensors) return;
  text.tensors = text.tensors->renamed(
      [](const std::string& name) { return layer_of(name) >= kTextLayers || name.starts_with("norm.") ? std::string() : name; });
}

/// Tells of a transformer that was made for what this run does not give it, as far as its name says so.
void tell_other_transformer(const Source& dit, const GivenUnits& given) {
  if (!dit.entry || dit.entry->is_sizes || !given.is_any() || given.are_references() == is_of_references(dit)) return;
  if (given.are_references())
    warn("{} does not say in its name that it is Ref2VA, the transformer that was made with references; FL2VA has never seen any",
         dit.entry->label);
  else warn("{} is the transformer that was made with references (Ref2VA), and FL2VA the one that goes on from frames", dit.entry->label);
}

}  // namespace

MiniMaxH3Model::MiniMaxH3Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  given_ = std::make_unique<GivenUnits>(files_, options_, components_, is_of_references(find_sources(files_).dit));
  auto found = find_sources(files_, given_->are_references());
  tell_other_transformer(found.dit, *given_);
  const auto dit = in_our_rows(found.dit);
  config_ = read_named(dit, detect);
  auto published = text::qwen3_vl_8b();
  published.width = config_.caption_width;
  auto text_config = read_named(found.text_encoder, text::qwen3_vl_config, published);
  cut_text_encoder(found.text_encoder, text_config);
  check_widths(dit, "texts", config_.caption_width, found.text_encoder, "text encoder", text_config.width);
  sound_ = std::make_unique<SoundUnits>(options_, components_, found.audio_vae, dit.entry ? config_.audio_channels : 0);
  process_ = std::make_unique<Process>(shift_of(files_, "scheduler", kShift), shift_of(files_, "audio_scheduler", kSoundShift));
  add_transformer(dit);
  add_text_encoder(found.text_encoder, text_config);
  if (given_->is_any()) add(given_->tower(found.vision));
  add_autoencoder(found.vae);
  check_latents(dit, config_.in_channels, autoencoder_);
  add(sound_->components());
  fill_names();
}

/// What of an original file lies head by head is shown part by part, once it is known that it does.
Source MiniMaxH3Model::in_our_rows(Source transformer) const {
  const auto& asked = options_.get<std::string>(kRowsOption);
  if (!transformer.tensors || !transformer.tensors->contains(kOriginalMark)) return transformer;
  auto rows = asked == "by_part" ? FusedRows::by_part : asked == "by_head" ? FusedRows::by_head : rows_of(transformer);
  if (rows == FusedRows::unknown)
    config_error(
        "models",
        "{}: nothing tells how the rows of query, key and value lie in this file; say --{} by_part for ComfyUI's files and what is "
        "made of them, by_head for MiniMax's own",
        transformer.entry->label, kRowsOption);
  const std::string norm = "blocks.0.attn.q_norm.weight";
  if (rows == FusedRows::by_head && transformer.tensors->contains(norm))
    transformer.tensors = with_rows_by_part(*transformer.tensors, {kFused}, transformer.tensors->info(norm).shape.at(0));
  return transformer;
}

// diffusers and SimpleTuner have our paths, and so do files of DiffSynth-Studio that are read there as lightx2v's; ComfyUI, ai-toolkit,
// diffusion-pipe and musubi-tuner the original ones.
void MiniMaxH3Model::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, mmdit::layers_of_part);
  recipe.parts = {kModulation, kText, kBody};
  recipe.settings = [this](const std::string& part) {
    if (part != kModulation) return std::string();
    return fmt::format("{}{}", sound_->is_seen() ? "" : "without sound", given_->are_references() ? ", of references" : "");
  };
  ComponentNames names{.layers = {.weights = "",
                                  .diffusers = given_->are_references() ? "transformer_ref." : "transformer.",
                                  .kohya = "lora_transformer_",
                                  .others = {"lora_unet_", given_->are_references() ? "transformer." : "transformer_ref."},
                                  .diffusers_alpha = false,
                                  .comfyui_alpha = true,
                                  .diffsynth = ""},
                       .lora_targets = R"(transformer_blocks\.\d+\.(attn\.to_[qkv]|attn\.to_out\.0|ff\.net\.0\.proj|ff\.net\.2))",
                       .high_precision = {"proj_in", "audio_proj_in", "context_embedder", "token_refiner\\..*", "time_embedder\\..*",
                                          "norm_out\\.linear", "proj_out", "audio_proj_out"},
                       .foreign_layers = foreign_layers(config_),
                       .swapped_halves = swapped_layers(config_),
                       .written = written_layers(config_),
                       .single_file = {"model.diffusion_model.", original_keys()},
                       .aliases = target_names};
  if (config_.time.is_table()) {
    names.high_precision.insert(names.high_precision.end(), {kTimeTable, R"(transformer_blocks\.\d+\.adaln_proj\.linear)"});
    names.without_gradient.emplace_back(kTimeTable);
  }
  // A prediction of a stream that is not judged teaches nothing.
  if (!sound_->is_learned()) names.without_gradient.emplace_back("audio_proj_out");
  if (!sound_->is_seen() && !given_->are_references()) names.without_gradient.emplace_back("audio_proj_in");
  if (sound_->frames_weight() == 0) names.without_gradient.emplace_back("proj_out");
  add(recipe, names);
}

void MiniMaxH3Model::add_text_encoder(const Source& source, const text::QwenConfig& config) {
  const bool is_named = source.entry && source.entry->is_sizes;
  const QwenUse use{.text = {.published = "MiniMax/MiniMax-H3:FL2VA/tokenizer/",
                             .comfyui = "text_encoders.qwen3vl_32b.transformer.",
                             .length = is_named ? kUnknownTextLength : kTextLength},
                    .num_read = kTextLayers,
                    .kind = "Qwen3-VL",
                    .below = kTextWeights};
  auto part = qwen_part(source, config, use, files_, options_);
  if (options_.references) part.recipe.tokenizer->load = [](const auto& folder) { return load_seeing_qwen(folder, {}); };
  add(part);
}

void MiniMaxH3Model::add_autoencoder(const Source& source) {
  auto config = read_named(source, autoencoder_config);
  const auto& tiles = options_.get<std::string>(kTilesOption);
  if (tiles == "whole") config.tiling.size = 0;
  autoencoder_ = {
      .recipe = {.name = kVae,
                 .what = "autoencoder of frames",
                 .source = source,
                 .build = [config](const std::string&, const at::TensorOptions& o) { return std::make_unique<Autoencoder>(config, o); },
                 .dtype = at::kFloat,
                 .settings = [tiles](const std::string&) { return "tiles " + tiles; }},
      .names = plain_names(kVae),
      .channels = config.latent_channels,
      .downsampling = config.downsampling(),
      .encode =
          [](nn::Module& module, const at::Tensor& x) {
            tell_length(x.dim() == 4 ? 1 : x.size(2));
            return static_cast<Autoencoder&>(module).encode(x.dim() == 4 ? x.unsqueeze(2) : x);
          },
      .decode =
          [](nn::Module& module, const at::Tensor& x) {
            const auto frames = static_cast<Autoencoder&>(module).decode(x);
            return frames.size(2) == 1 ? frames.squeeze(2) : pixels_of(frames);
          }};
  autoencoder_.names.high_precision = {".*"};
  autoencoder_.names.single_file = {"vae.", {}};
  autoencoder_.names.without_gradient = {"decoder", "post_quant_conv"};
  add(autoencoder_, /*patch=*/2);
  auto& frames = latent_space_.streams.front();
  frames.temporal = config.frames_per_latent();
  frames.weight = sound_->frames_weight();
  latent_space_.frames_step = config.clip_length;
  latent_space_.first_frames = (config.latents_per_clip() - config.num_dropped) * config.frames_per_latent() - config.num_frames_before();
  latent_space_.frame_rate = kFrameRate;
  latent_space_.rate_use = Column::RateUse::fixed;
  if (sound_->is_seen()) latent_space_.streams.push_back(sound_->stream());
}

void MiniMaxH3Model::fill_names() {
  names_.family = "minimax_h3";
  names_.variant = "MiniMax-H3";
  names_.file_words.base_version = "minimax_h3";
  names_.tokens = TokenNames{.width = config_.width, .output = 1};
  names_.experts = {{kDit}};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
      {"text_tokens", {.padded = true}},
  };
  given_->add_names(names_, config_.caption_width, sound_->rate());
  sound_->add_names(names_);
}

void MiniMaxH3Model::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  const auto sigma = scope.tensor(kTime).to(options_.device, at::kFloat);
  Transformer::Sigmas sigmas{sigma};
  if (sound_->is_seen()) sigmas.sound_B = process().level(kSound, sigma);
  if (options_.references) sigmas.given_B = sigma.clamp_max(kGivenSigma);
  if (given_->are_references()) sigmas.given_sound_B = at::zeros_like(sigma);
  scope.write("modulation", loaded<Transformer>(kModulation).modulate(sigmas, options_.dtype));
}

void MiniMaxH3Model::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  Transformer::Inputs in{.noisy_BCHW = scope.tensor("noisy"),
                         .text_BTD = scope.tensor("text_tokens"),
                         .mask_BT = scope.tensor("text_mask").to(options_.device),
                         .modulation_BM = scope.tensor("modulation")};
  if (sound_->is_seen()) in.sound_BCSN = scope.tensor(kSoundNoisy).unflatten(2, {kSides, -1});
  if (options_.references) {
    auto here = [&](const std::string& name) { return scope.tensor(name).to(options_.device); };
    for (const auto& latents : stack_lists(scope.lists(kGiven))) in.given.latents.push_back(latents.to(options_.device));
    in.given.are_references = given_->are_references();
    in.given.seen_BSD = here(kSeenTokens);
    in.given.places_BL = at::cat({here(kTextPlaces), here(kSeenPlaces)}, 1);
  }
  tell_length(in.noisy_BCHW.dim() == 5 ? frames_of_latents(in.noisy_BCHW.size(2)) : 1);
  auto [frames, sound] = loaded<Transformer>(kBody).forward(in);
  scope.write("prediction", frames);
  if (sound_->is_seen()) scope.write(kSoundPrediction, sound.flatten(2));
}

pipeline::Units MiniMaxH3Model::denoise_units() {
  using pipeline::Scope;
  std::vector<std::string> reads{"noisy", "text_tokens", "text_mask", "modulation"}, writes{"prediction"};
  if (sound_->is_seen()) {
    reads.push_back(kSoundNoisy);
    writes.push_back(kSoundPrediction);
  }
  std::vector<std::string> texts{"text_embedding", "text_mask"}, tokens{"text_tokens"};
  if (options_.references) {
    texts.push_back(kSeenEmbedding);
    tokens.push_back(kSeenTokens);
    reads.insert(reads.end(), {kSeenTokens, kTextPlaces, kSeenPlaces, kGiven});
  }
  return {{"refine_text", texts, tokens, {kText}, [this](Scope& s) { refine(s); }},
          {"modulate", {kTime}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
          {"denoise", reads, writes, {kBody}, [this](Scope& s) { denoise(s); }}};
}

UnitGroups MiniMaxH3Model::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  std::vector<std::string> told{"prompt"}, texts{"text_embedding", "text_mask"};
  if (options_.references) {
    groups.encode_prompt = {given_->seeing_unit()};
    groups.encode_references = given_->latent_units(autoencoder_, *sound_);
    told.push_back(kSeenGiven);
    texts.insert(texts.end(), {kTextPlaces, kSeenEmbedding, kSeenPlaces});
  }
  groups.encode_prompt.push_back({"encode_prompt", told, texts, {kEncoder}, [this](Scope& s) { encode_prompt(s); }});
  groups.denoise = denoise_units();
  if (!sound_->is_seen()) return groups;
  sound_->add_units(groups);
  return groups;
}

}  // namespace burnish::models::minimax_h3
