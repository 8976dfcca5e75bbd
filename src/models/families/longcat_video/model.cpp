#include "models/families/longcat_video/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/families/longcat_video/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/shared_units.h"
#include "models/parts/umt5.h"

namespace burnish::models::longcat_video {

namespace {

const std::string kModulationPart = "dit.modulation", kBodyPart = "dit.body", kFirstLatents = "first_latents";
constexpr double kShift = 12, kTrainedShift = 5, kFrameRate = 15;

/// Leads away from what is brought nearest to the guided prediction by a factor for each sample (CFG-Zero*, arXiv 2503.18886). Frames on
/// which both agree are given, and say nothing of the factor.
at::Tensor guide_nearest(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale) {
  constexpr double kLeast = 1e-8;
  const std::vector<int64_t> numbers{1, 2, 3, 4};
  const auto differs = conditional.ne(unconditional).flatten(3).any(3, /*keepdim=*/true).any(1, /*keepdim=*/true).unsqueeze(-1);
  const auto away = unconditional * differs;
  auto factor = at::sum(conditional * away, numbers, /*keepdim=*/true) / (at::sum(away * away, numbers, /*keepdim=*/true) + kLeast);
  factor = at::where(differs.any(2, /*keepdim=*/true), factor, 1);
  return diffusion::guide(conditional, at::where(differs, unconditional * factor, unconditional), scale, rescale);
}

}  // namespace

LongCatVideoModel::LongCatVideoModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, text, vae] = find_sources(files_);
  if (dit.entry) config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::t5_config);
  autoencoder_ = causal_part(vae, options_, vae::CausalFor::clips);
  check_latents(dit, config_.channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  if (options_.references) num_given_ = options_.get<int64_t>(kGivenFrames);
  add_transformer(dit);
  add(umt5_part(text, text_config, files_, options_));
  add(autoencoder_, /*patch=*/2);
  fill_names();
  fill_latent_space(read_named(vae, vae::causal_config));
  auto sampling = flow_config(files_, {.shift = kShift, .use_dynamic_shifting = false});
  sampling.ends_at = diffusion::LineEnd::thousandth;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.shift = kTrainedShift, .last = 0});
}

void LongCatVideoModel::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, mmdit::layers_of_part);
  recipe.parts = {kModulationPart, kBodyPart};
  recipe.blocks = [](nn::Module& whole) { return static_cast<Transformer&>(whole).blocks(); };
  add(recipe, {.layers = {.weights = "", .diffusers = "dit.", .kohya = "lora_unet_", .diffusers_alpha = false, .comfyui_alpha = false},
               .lora_targets = "to_q,to_k,to_v,attn.proj,cross_attn.proj,w1,w2,w3",
               .high_precision = {"x_embedder\\.proj", "[ty]_embedder\\..*", ".*adaLN_modulation\\.1", "final_layer\\.linear"},
               .foreign_layers = foreign_layers(config_),
               .written = written_layers(config_),
               .folder_file = {"", fused_keys()},
               .single_file = {"model.diffusion_model.", wrapper_keys()},
               .aliases = target_names});
}

void LongCatVideoModel::fill_names() {
  names_.family = "longcat_video";
  names_.variant = "LongCat-Video";
  names_.file_words = {names_.variant, "https://github.com/meituan-longcat/LongCat-Video", "longcat_video"};
  names_.tokens = TokenNames{.width = config_.width};
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.channels, -1, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_counts", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
  };
  add_diffsynth_text(names_);
  if (num_given_ == 0) {
    if (options_.get<double>(kFirstShare) < 1)
      config_error("models", "{} says at which share of visits frames are given, and none are; name {} in extra_inputs, or take it out",
                   kFirstShare, kFirstFrameColumn);
    return;
  }
  names_.references.column = kFirstFrameColumn;
  names_.values[kFirstLatents] = {.shape = {-1, config_.channels, -1, -1, -1}, .diffsynth = {"longcat_latents"}};
  names_.values["loss_map"] = {};
  given_at().add_names(names_);
}

void LongCatVideoModel::fill_latent_space(const vae::CausalConfig& autoencoder) {
  auto& clips = latent_space_.streams[0];
  latent_space_.frames_step = clips.temporal = autoencoder.frames_per_latent();
  latent_space_.frame_rate = kFrameRate;
  if (num_given_ == 0) return;
  check_given_frames(kGivenFrames, num_given_, clips.temporal);
  clips.held = {kFirstLatents, num_given_};
}

diffusion::Guide LongCatVideoModel::guide() const { return guide_nearest; }

void LongCatVideoModel::modulate(pipeline::Scope& scope) {
  scope.uses(kModulationPart);
  const auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  auto& transformer = loaded<Transformer>(kModulationPart);
  scope.write("modulation", transformer.modulate(sigma));
  if (num_given_ > 0) scope.write("first_modulation", transformer.modulate(at::zeros_like(sigma)));
}

void LongCatVideoModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBodyPart);
  const auto noisy = scope.tensor("noisy");
  Transformer::Inputs in{.noisy_BCFHW = noisy,
                         .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                         .counts_BT = scope.tensor("text_counts").to(options_.device),
                         .modulation_BM = scope.tensor("modulation")};
  const bool has_given = num_given_ > 0 && given_at().tell(scope);
  if (has_given) {
    const auto first = scope.tensor(kFirstLatents);
    in.noisy_BCFHW = with_first(noisy, first);
    in.given_modulation_BM = scope.tensor("first_modulation");
    in.num_given = first.size(2);
  }
  auto prediction = loaded<Transformer>(kBodyPart).forward(in);
  scope.write("prediction",
              has_given ? leading_to_first(prediction, noisy, scope.tensor(kFirstLatents), scope.tensor("sigma")) : prediction);
}

void LongCatVideoModel::add_given_frames(UnitGroups& groups) {
  const auto& vae = autoencoder_.recipe.name;
  const auto encode = encoding_by(autoencoder_, components_, options_.device);
  groups.encode_references = num_given_ > 1 ? held_beginning_units(vae, encode, num_given_) : held_frame_units(vae, encode);
  const auto num_latents = (num_given_ - 1) / latent_space_.streams[0].temporal + 1;
  groups.weigh = held_frame_weights(num_latents, given_at());
  auto& modulate = groups.denoise.front();
  auto& denoise = groups.denoise.back();
  given_at().add_to(denoise.reads);
  modulate.writes.emplace_back("first_modulation");
  denoise.reads.insert(denoise.reads.end(), {"first_modulation", kFirstLatents, "sigma"});
}

UnitGroups LongCatVideoModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_references = {};  // which reads the clip itself
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding", "text_counts"}, {kUmt5}, [this](Scope& s) {
                             encode_by_umt5(s, components_, options_.device, s.text("prompt"));
                           }}};
  groups.denoise = {
      {"modulate", {"sigma"}, {"modulation"}, {kModulationPart}, [this](Scope& s) { modulate(s); }},
      {"denoise", {"noisy", "text_embedding", "text_counts", "modulation"}, {"prediction"}, {kBodyPart}, [this](Scope& s) { denoise(s); }}};
  if (num_given_ > 0) add_given_frames(groups);
  return groups;
}

}  // namespace burnish::models::longcat_video
