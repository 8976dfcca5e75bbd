#include "models/families/minimax_h3/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/families/minimax_h3/autoencoder.h"
#include "models/families/minimax_h3/keys.h"
#include "models/families/minimax_h3/process.h"
#include "models/families/minimax_h3/rows_of_heads.h"
#include "models/model/step_end.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"

namespace burnish::models::minimax_h3 {

namespace {

const std::string kDit = "dit", kEncoder = "text_encoder", kVae = "vae", kTime = "sigma";
const std::string kModulation = "dit.modulation", kText = "dit.text", kBody = "dit.body";
/// What stands before the text encoder's layers in diffusers' folders, whose Qwen3VLForConditionalGeneration sees and speaks too.
const std::string kTextWeights = "model.language_model.";
/// The layers of the text encoder that are run; what is behind them is not read, and what they give goes through no norm.
constexpr int64_t kTextLayers = 50;
/// The most tokens of a text, and as many as are counted on where no text is known.
constexpr int64_t kTextLength = 8192, kUnknownTextLength = 512;
/// The shifts of training and drawing, for all sizes.
constexpr double kShift = 12, kSoundShift = 3;
/// The text that stands for none: the model knows no sequence without one.
const std::string kNoText = " ";
/// Latents of sound of one frame, on each of two sides, and the stream that they are.
constexpr int64_t kSides = 2, kSoundOfStill = 2;
const std::string kSound = "audio_latents", kSoundNoise = kSound + "_noise", kSoundNoisy = kSound + "_noisy",
                  kSoundTarget = kSound + "_target", kSoundPrediction = kSound + "_prediction";

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

}  // namespace

MiniMaxH3Model::MiniMaxH3Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  auto found = find_sources(files_);
  const auto dit = in_our_rows(found.dit);
  config_ = read_named(dit, detect);
  auto published = text::qwen3_vl_8b();
  published.width = config_.caption_width;
  auto text_config = read_named(found.text_encoder, text::qwen3_vl_config, published);
  cut_text_encoder(found.text_encoder, text_config);
  check_widths(dit, "texts", config_.caption_width, found.text_encoder, "text encoder", text_config.width);
  has_sound_ = options_.get<std::string>(kSoundOption) == "noise";
  add_transformer(dit);
  add_text_encoder(found.text_encoder, text_config);
  add_autoencoder(found.vae);
  check_latents(dit, config_.in_channels, autoencoder_);
  if (has_sound_) add_sound();
  fill_names();
  const auto shift = shift_of(files_, "scheduler", kShift);
  sound_shift_ = shift_of(files_, "audio_scheduler", kSoundShift) / shift;
  process_ = std::make_unique<Process>(shift);
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
  recipe.settings = [this](const std::string& part) { return std::string(part == kModulation && !has_sound_ ? "without sound" : ""); };
  ComponentNames names{.layers = {.weights = "",
                                  .diffusers = "transformer.",
                                  .kohya = "lora_transformer_",
                                  .others = {"lora_unet_"},
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
  // Nothing that is predicted for a still's sound is judged.
  names.without_gradient.emplace_back("audio_proj_out");
  if (!has_sound_) names.without_gradient.emplace_back("audio_proj_in");
  add(recipe, names);
}

void MiniMaxH3Model::add_text_encoder(const Source& source, const text::QwenConfig& config) {
  const bool is_named = source.entry && source.entry->is_sizes;
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3vl_32b.transformer.", .length = is_named ? kUnknownTextLength : kTextLength},
                    .num_read = kTextLayers,
                    .kind = "Qwen3-VL",
                    .below = kTextWeights};
  add(qwen_part(source, config, use, files_, options_));
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
      .encode = [](nn::Module& module, const at::Tensor& x) { return static_cast<Autoencoder&>(module).encode(x); },
      .decode = [](nn::Module& module, const at::Tensor& x) { return static_cast<Autoencoder&>(module).decode(x); }};
  autoencoder_.names.high_precision = {".*"};
  autoencoder_.names.single_file = {"vae.", {}};
  autoencoder_.names.without_gradient = {"decoder", "post_quant_conv"};
  add(autoencoder_, /*patch=*/2);
}

/// A still is one frame of a clip that the model makes with its sound. Of that there is nothing to learn, but its tokens have always stood
/// there: they are noise of the level that sound has beside such frames.
void MiniMaxH3Model::add_sound() {
  latent_space_.streams.push_back(
      {.name = kSound, .channels = config_.audio_channels, .spatial = 0, .weight = 0, .num_before = kSides * kSoundOfStill});
}

void MiniMaxH3Model::fill_names() {
  names_.family = "minimax_h3";
  names_.variant = "MiniMax-H3";
  names_.file_words.base_version = "minimax_h3";
  names_.tokens = TokenNames{.width = config_.width, .output = 1};
  names_.experts = {{kDit}};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
      {"text_tokens", {.padded = true}},
  };
}

/// The noise of the sound where the frames have this: both shifts are of one base.
at::Tensor MiniMaxH3Model::sound_sigma(const at::Tensor& sigma_B) const {
  return sigma_B * sound_shift_ / (1 + sigma_B * (sound_shift_ - 1));
}

void MiniMaxH3Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto& tokenizer = components_.tokenizer(kEncoder);
  const auto& prompt = scope.text("prompt");
  auto ids = tokenizer.encode(prompt.empty() ? kNoText : prompt);
  const auto limit = token_limit(components_, kEncoder);
  // A model that is only named has no text that is known; it may be as long as any.
  const bool is_named = components_.source(kEncoder).entry->is_sizes;
  if (is_named || std::ssize(ids) > limit) ids.resize(static_cast<size_t>(limit));
  const text::QwenReading reading{.after = {kTextLayers}, .norms_last = false};
  write_text(scope, loaded<text::QwenEncoder>(kEncoder).forward(as_batch(ids, options_.device), reading).front());
}

void MiniMaxH3Model::add_noise_to_sound(pipeline::Scope& scope) const {
  const auto &latents = scope.tensor(kSound), &noise = scope.tensor(kSoundNoise);
  const auto sigma = sound_sigma(scope.tensor(kTime));
  scope.write(kSoundNoisy, process().add_noise(latents, noise, sigma));
  scope.write(kSoundTarget, process().target(latents, noise, sigma));
}

void MiniMaxH3Model::refine(pipeline::Scope& scope) {
  scope.uses(kText);
  scope.write("text_tokens", loaded<Transformer>(kText).refine(scope.tensor("text_embedding").to(options_.dtype),
                                                               scope.tensor("text_mask").to(options_.device)));
}

void MiniMaxH3Model::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  const auto sigma = scope.tensor(kTime).to(options_.device, at::kFloat);
  scope.write("modulation",
              loaded<Transformer>(kModulation).modulate(sigma, has_sound_ ? sound_sigma(sigma) : at::Tensor(), options_.dtype));
}

void MiniMaxH3Model::denoise(pipeline::Scope& scope, bool draws) {
  scope.uses(kBody);
  Transformer::Inputs in{.noisy_BCHW = scope.tensor("noisy"),
                         .text_BTD = scope.tensor("text_tokens"),
                         .mask_BT = scope.tensor("text_mask").to(options_.device),
                         .modulation_BM = scope.tensor("modulation")};
  if (has_sound_) in.sound_BCSN = scope.tensor(kSoundNoisy).unflatten(2, {kSides, -1});
  auto [frames, sound] = loaded<Transformer>(kBody).forward(in);
  scope.write("prediction", frames);
  if (!has_sound_) return;
  sound = sound.flatten(2);
  if (draws) {
    // A step takes all streams as far as the frames go; the sound's noise falls by another amount, which is this share of theirs.
    auto slope = [&](const std::string& time) { return 1 + scope.tensor(time).to(sound.device()) * (sound_shift_ - 1); };
    sound = sound * (sound_shift_ / (slope(kTime) * slope(kStepEnd))).view({-1, 1, 1});
  }
  scope.write(kSoundPrediction, sound);
}

pipeline::Units MiniMaxH3Model::denoise_units(bool draws) {
  using pipeline::Scope;
  std::vector<std::string> reads{"noisy", "text_tokens", "text_mask", "modulation"}, writes{"prediction"};
  if (has_sound_) {
    reads.push_back(kSoundNoisy);
    writes.push_back(kSoundPrediction);
    if (draws) reads.insert(reads.end(), {kTime, kStepEnd});
  }
  return {{"refine_text", {"text_embedding", "text_mask"}, {"text_tokens"}, {kText}, [this](Scope& s) { refine(s); }},
          {"modulate", {kTime}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
          {"denoise", reads, writes, {kBody}, [this, draws](Scope& s) { denoise(s, draws); }}};
}

UnitGroups MiniMaxH3Model::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {kEncoder}, [this](Scope& s) { encode_prompt(s); }}};
  groups.denoise = denoise_units(/*draws=*/false);
  if (!has_sound_) return groups;
  groups.encode_image.push_back(
      {"stand_for_sound", {"latents"}, {kSound}, {}, [this](Scope& s) {
         const auto& latents = s.tensor("latents");
         s.write(kSound, at::zeros({latents.size(0), config_.audio_channels, kSides * kSoundOfStill}, latents.options().dtype(at::kFloat)));
       }});
  groups.add_noise = noise_units(process(), {latent_space_.streams.front()});
  groups.add_noise.push_back(
      {"add_noise_to_sound", {kSound, kSoundNoise, kTime}, {kSoundNoisy, kSoundTarget}, {}, [this](Scope& s) { add_noise_to_sound(s); }});
  groups.draw = denoise_units(/*draws=*/true);
  return groups;
}

}  // namespace burnish::models::minimax_h3
