#include "models/wan/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "diffusion/flow_process.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/scheduler_file.h"
#include "models/shared_units.h"
#include "models/vocabulary.h"
#include "models/wan/animate_units.h"
#include "models/wan/keys.h"
#include "models/wan/prompt.h"
#include "tokenizers/t5.h"

namespace burnish::models::wan {

namespace {

const std::string kText = "text_encoder", kImageEncoder = "image_encoder";
/// Tokens of a text as Wan was trained; shorter ones were filled up with zeros that are attended to.
constexpr int64_t kTextLength = 512;
/// The noise at which the experts meet: of text to video, and of picture to video (Wan-Video: wan/configs).
constexpr double kTextBoundary = 0.875, kPictureBoundary = 0.9;

/// What model_index.json says of that noise.
double boundary_of(const ModelFiles& files, double otherwise) {
  auto index = files.in_pipeline("model_index.json");
  if (index) io::take(io::read_json(*index), "boundary_ratio", otherwise, "model");
  if (!(otherwise > 0 && otherwise < 1))
    data_error("models", "model_index.json says boundary_ratio = {}; a number between 0 and 1 was expected", otherwise);
  return otherwise;
}

/// What shapes tell of a published model's name; the experts of A14B, each alone, are as Wan2.1-T2V-14B.
std::string variant_of(const Config& c, const ControlConfig& control, const Found& found) {
  const bool has_experts = found.has_experts, has_vace = found.has_vace();
  if (found.animate.entry) return "Wan2.2-Animate-14B";
  const std::string fun = has_experts ? "2.2-Fun-A14B" : c.width() == 1536 ? "2.1-Fun-1.3B" : "2.1-Fun-14B";
  if (control.has_camera) return "Wan" + fun + "-Control-Camera";
  if (c.in_channels > 2 * c.out_channels + kMaskChannels) return "Wan" + fun + "-Control";
  if (has_vace) return has_experts ? "Wan2.2-VACE-Fun-A14B" : c.width() == 5120 ? "Wan2.1-VACE-14B" : "Wan2.1-VACE-1.3B";
  if (has_experts) return c.in_channels > c.out_channels ? "Wan2.2-I2V-A14B" : "Wan2.2-T2V-A14B";
  if (c.out_channels == 48) return "Wan2.2-TI2V-5B";
  const std::string size = c.width() == 1536 ? "-1.3B" : c.width() == 5120 ? "-14B" : "";
  if (c.image_places > 0) return "Wan2.1-FLF2V" + size;
  if (c.image_width > 0) return size == "-1.3B" ? "Wan2.1-Fun-1.3B-InP" : "Wan2.1-I2V" + size;
  return "Wan2.1-T2V" + size;
}

/// What ai-toolkit puts before the layers of an expert in a file for both.
std::string in_both_of(bool is_second) { return is_second ? "transformer_2." : "transformer_1."; }

/// The module of VACE beside a transformer.
std::string vace_of(const std::string& dit) { return dit == "dit" ? kVace : kVace + "_2"; }

/// umT5's tokenizer lies in a folder of its own beside the original files, or in the text encoder's file.
TextPart text_part(const Source& source, const text::T5Config& config, const TextUse& use, const ModelFiles& files,
                   const ModelOptions& options) {
  auto part = t5_part(source, config, use, files, options);
  auto& tokenizer = *part.recipe.tokenizer;
  const bool is_beside = !options.tokenizer_path.empty() || files.in_pipeline(use.tokenizer);
  if (is_beside) return part;
  if (auto original = files.in_pipeline("google/umt5-xxl")) {
    tokenizer.folder = [folder = *original] { return folder; };
  } else if (auto name = source.entry != nullptr ? vocabulary_in(*source.entry) : ""; !name.empty()) {
    const auto tensors = *source.entry->tensors;
    tokenizer.folder = [tensors] { return tensors.files().front()->path(); };
    tokenizer.load = [tensors, name](const auto& from) {
      auto bytes = tensors.tensor(name).contiguous();
      return tokenizers::t5_of_bytes({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, from);
    };
  }
  return part;
}

}  // namespace

WanModel::WanModel(const ModelFiles& files, const ModelOptions& options) : Model(files, options) {
  const auto found = find_sources(files_);
  for (const auto* dit : {&found.low_noise, &found.high_noise}) {
    if (dit->entry) config_ = read_named(*dit, detect);
  }
  auto text_config = read_named(found.text_encoder, text::t5_config);
  autoencoder_ = causal_part(found.vae, options_, vae::CausalFor::clips);
  auto vae_config = read_named(found.vae, vae::causal_config);
  first_frame_ = first_frame_of(config_, vae_config);
  if (!options_.references && options_.extra_inputs.contains(std::string(kLastFrame.column)))
    config_error(
        "models",
        "end_image is a clip's last frame and goes with its first; name input_image in extra_inputs too, when drawing --reference");
  read_vace(found);
  const auto& dit = found.high_noise.entry ? found.high_noise : found.low_noise;
  control_ = std::make_unique<Control>(options_, config_, read_named(dit, detect_control), dit.entry != nullptr);
  add_further(found);
  fill_names(found);
  const Source* of_expert[] = {&found.high_noise, &found.low_noise};
  for (size_t i = 0; i < names_.experts.size(); ++i) {
    check_latents(*of_expert[i], config_.out_channels, autoencoder_);
    check_widths(*of_expert[i], "texts", config_.caption_width, found.text_encoder, "text encoder", text_config.width);
    add_transformer(names_.experts[i].component, *of_expert[i]);
    if (found.has_vace() || reads_vace_) add_vace(vace_of(names_.experts[i].component), found.vace[i]);
  }
  const TextUse use{.kohya = "lora_te_", .comfyui = "text_encoders.umt5xxl.transformer.", .length = kTextLength};
  add_motion(found);
  for (const auto& further : further_) {
    for (const auto& part : further->parts(names_.of("dit"))) add(part.recipe, part.names);
  }
  add(text_part(found.text_encoder, text_config, use, files_, options_));
  add_image_encoder(found);
  add(autoencoder_, kPatch);
  if (reads_vace_ && options_.extra_inputs.contains(kVaceReference)) latent_space_.streams[0].num_before = 1;
  for (const auto& further : further_) latent_space_.streams[0].num_before += further->num_before();
  latent_space_.frames_step = latent_space_.streams[0].temporal = vae_config.frames_per_latent();
  if (first_frame_ == FirstFrame::held) latent_space_.frame_rate = 24;  // Wan2.2-TI2V-5B
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {.shift = 5.0, .use_dynamic_shifting = false}),
                                                      diffusion::GridConfig{.shift = 5.0, .last = 0});
}

void WanModel::add_transformer(const std::string& name, const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, mmdit::part_named);
  recipe.name = name;
  recipe.build = [dit = config_, control = control_->config()](const std::string& part, const at::TensorOptions& o) {
    return std::make_unique<Transformer>(dit, o, mmdit::part_named(part), control);
  };
  recipe.parts = {name + ".modulation", name + ".body"};
  const bool is_second = name != "dit";
  const auto in_both = in_both_of(is_second);
  add(recipe, {.layers = {.weights = "",
                          .diffusers = is_second ? "transformer_2." : "transformer.",
                          .kohya = "lora_transformer_",
                          .others = {is_second ? "transformer." : in_both},
                          .diffusers_alpha = false,
                          .comfyui_alpha = false},  // diffusers' loader refuses that of layers outside of the blocks
               .lora_targets = "to_q,to_k,to_v,to_out.0,ffn.net.0.proj,ffn.net.2",
               .high_precision = {"patch_embedding", "condition_embedder\\..*", "proj_out", "ref_conv", "control_adapter\\..*"},
               .foreign_layers = foreign_layers(config_, in_both),
               .written = written_layers(config_),
               .single_file = {"model.diffusion_model.", original_keys()},
               .aliases = target_names});
}

void WanModel::add_image_encoder(const Found& found) {
  if (!reads_image()) return;
  const auto& source = found.image_encoder;
  clip_config_ = read_named(source, clip_vision_config);
  const auto& dit = found.high_noise.entry != nullptr ? found.high_noise : found.low_noise;
  check_widths(dit, "pictures", config_.image_width, source, "image encoder", clip_config_.width);
  const auto of_both = 2 * clip_config_.num_places;
  if (dit.entry && source.entry && config_.image_places > 0 && config_.image_places != of_both)
    data_error("models",
               "the transformer has places for {} states of first and last frame, and the image encoder makes {} of them; they "
               "belong to different models",
               config_.image_places, of_both);
  add(clip_vision_recipe(kImageEncoder, source, clip_config_), clip_vision_names(kImageEncoder, clip_config_));
}

/// A stage without a transformer encodes for any.
void WanModel::read_vace(const Found& found) {
  const bool has_dit = found.high_noise.entry || found.low_noise.entry;
  for (const auto& vace : found.vace) {
    if (!vace.entry || !has_dit) continue;
    vace_config_ = naming(vace.entry->label, [&] { return detect_vace(vace.entry->config, vace.shapes(), config_); });
  }
  reads_vace_ = reads_vace(options_.extra_inputs) && (found.has_vace() || !has_dit);
  if (reads_vace_ && options_.latents != "mean" && options_.extra_inputs.contains(kVaceReference))
    config_error("models", "latents sample draws them at every visit, and those of {} are the mean; take one of them out", kVaceReference);
}

void WanModel::add_vace(const std::string& name, const Source& source) {
  const auto& dit = names_.of(name == kVace ? "dit" : "dit_2");
  auto high_precision = dit.high_precision;
  high_precision.emplace_back("vace_patch_embedding");
  add({.name = name,
       .what = "module of VACE",
       .source = source,
       .build = [dit = config_, config = vace_config_](const std::string&,
                                                       const at::TensorOptions& o) { return std::make_unique<Vace>(dit, config, o); }},
      {.layers = dit.layers,
       .lora_targets = dit.lora_targets,
       .high_precision = high_precision,
       .foreign_layers = foreign_layers(vace_config_, in_both_of(name != kVace)),
       .written = written_layers(vace_config_),
       .single_file = {"model.diffusion_model.", original_keys()},
       .aliases = target_names});
}

void WanModel::add_motion(const Found& found) {
  const bool has_dit = found.high_noise.entry || found.low_noise.entry;
  reads_motion_ = options_.extra_inputs.contains(std::string(kMotionInput.column)) && (found.motion.entry || !has_dit);
  if (reads_motion_) names_.extra_inputs.push_back(kMotionInput);
  MotionController::Config config{.width = config_.width()};
  if (found.motion.entry) config = naming(found.motion.entry->label, [&] { return MotionController::detect(found.motion.shapes()); });
  if (found.motion.entry && has_dit && config.width != config_.width())
    data_error("models", "{}: the motion controller is {} wide and the transformer {}; they belong to different models",
               found.motion.entry->label, config.width, config_.width());
  if (!found.motion.entry && !reads_motion_) return;
  add({.name = kMotion,
       .what = "motion controller",
       .source = found.motion,
       .build = [config](const std::string&, const at::TensorOptions& o) { return std::make_unique<MotionController>(config, o); }},
      plain_names(kMotion));
}

void WanModel::add_further(const Found& found) {
  further_.push_back(std::make_unique<AnimateUnits>(options_, components_, found.animate, config_));
}

void WanModel::fill_names(const Found& found) {
  names_.family = "wan";
  names_.variant = variant_of(config_, control_->config(), found);
  names_.experts = {{"dit"}};
  if (found.has_experts) {
    const bool sees = config_.in_channels > config_.out_channels || found.has_vace();
    auto boundary = boundary_of(files_, sees ? kPictureBoundary : kTextBoundary);
    names_.experts = {{"dit", "high_noise", {boundary, 1}}, {"dit_2", "low_noise", {0, boundary}}};
  }
  names_.values = {
      {"latents", {.shape = {-1, config_.out_channels, -1, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_counts", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
  };
  control_->add_names(names_);
  for (const auto& further : further_) further->add_names(names_);
  if (reads_vace_) {
    names_.values["vace_context"] = {.shape = {-1, vace_config_.in_channels, -1, -1, -1}};
    for (const auto& input : kVaceInputs) {
      if (options_.extra_inputs.contains(std::string(input.column))) names_.extra_inputs.push_back(input);
    }
  }
  if (!options_.references || first_frame_ == FirstFrame::none) return;
  names_.reference_column = kFirstFrameColumn;
  if (first_frame_ == FirstFrame::held) names_.values["first_latents"] = {.shape = {-1, config_.out_channels, 1, -1, -1}};
  else names_.values["beside_latents"] = {.shape = {-1, kMaskChannels + config_.out_channels, -1, -1, -1}};
  if (reads_image()) names_.values["image_states"] = {.shape = {-1, -1, config_.image_width}};
  if (gives_last()) names_.extra_inputs.push_back(kLastFrame);
}

// States of padding are zeros that are attended to: one row that counts for all of them gives the same result.
void WanModel::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kText);
  const auto limit = token_limit(components_, kText);
  auto encoded = components_.tokenizer(kText).encode_padded(tidy_prompt(scope.text("prompt")), limit);
  bool is_named = components_.source(kText).entry->is_sizes;  // of which no text is known; it may be as long as any
  if (!is_named) encoded.ids.resize(static_cast<size_t>(encoded.num_tokens));
  auto states = loaded<text::T5Encoder>(kText).forward(as_batch(encoded.ids, options_.device));
  auto counts = at::ones({1, states.size(1)}, states.options().dtype(at::kFloat));
  if (auto missing = limit - states.size(1); missing > 0) {
    states = at::constant_pad_nd(states, {0, 0, 0, 1});
    counts = at::constant_pad_nd(counts, {0, 1}, static_cast<double>(missing));
  }
  scope.write("text_embedding", states);
  scope.write("text_counts", counts);
}

void WanModel::modulate(pipeline::Scope& scope, const std::string& dit) {
  const auto part = dit + ".modulation";
  scope.uses(part);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  auto& transformer = loaded<Transformer>(part);
  auto modulation = transformer.modulate(sigma);
  if (reads_motion_) {
    scope.uses(kMotion);
    auto more = loaded<MotionController>(kMotion).forward(scope.tensor(std::string(kMotionInput.column)).to(options_.device));
    modulation = modulation + at::constant_pad_nd(more, {0, config_.width()});  // none for the last norm
  }
  scope.write("modulation", modulation);
  if (gives(FirstFrame::held)) scope.write("first_modulation", transformer.modulate(at::zeros_like(sigma)));
}

void WanModel::denoise(pipeline::Scope& scope, const std::string& dit) {
  const auto part = dit + ".body";
  scope.uses(part);
  const auto noisy = scope.tensor("noisy");
  Transformer::Inputs in{.noisy_BCFHW = noisy,
                         .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                         .counts_BT = scope.tensor("text_counts").to(options_.device),
                         .modulation_BM = scope.tensor("modulation")};
  const bool is_held = gives(FirstFrame::held);
  if (is_held) {
    in.noisy_BCFHW = with_first(noisy, scope.tensor("first_latents"));
    in.given_modulation_BM = scope.tensor("first_modulation");
    in.num_given = 1;
  } else if (first_frame_ == FirstFrame::beside) {
    const auto first = options_.references ? scope.tensor("beside_latents") : at::Tensor();
    in.noisy_BCFHW = at::cat({noisy, control_->behind_noise(scope, noisy, first)}, 1);
  }
  if (reads_image()) in.image_BNW = image_states(scope, noisy.size(0));
  control_->give(scope, in);
  for (const auto& further : further_) further->give(scope, in);
  if (reads_vace_) {
    const auto vace = vace_of(dit);
    scope.uses(vace);
    in.hints = loaded<Vace>(vace).hints(scope.tensor("vace_context").to(options_.device, options_.dtype));
  }
  auto prediction = loaded<Transformer>(part).forward(in);
  scope.write("prediction",
              is_held ? leading_to_first(prediction, noisy, scope.tensor("first_latents"), scope.tensor("sigma")) : prediction);
}

at::Tensor WanModel::image_states(pipeline::Scope& scope, int64_t batch_size) const {
  if (options_.references || sees_reference()) return scope.tensor("image_states").to(options_.device);
  const auto num_rows = config_.image_places > 0 ? config_.image_places : clip_config_.num_places;
  return at::zeros({batch_size, num_rows, config_.image_width}, at::TensorOptions().device(options_.device).dtype(options_.dtype));
}

/// What CLIP makes of pictures [B, 3, H, W].
std::function<at::Tensor(const at::Tensor&)> WanModel::seeing() {
  return [this](const at::Tensor& image) {
    auto& encoder = loaded<ClipVision>(kImageEncoder);
    return encoder.states_before_last(seen_by_clip(image, clip_config_.image_size()).to(options_.device, options_.dtype));
  };
}

/// What given frames add, where a run gives them.
void WanModel::add_frame_units(UnitGroups& groups) {
  if (!options_.references || first_frame_ == FirstFrame::none) return;
  const auto& vae = autoencoder_.recipe.name;
  auto encode = encoding_by(autoencoder_, components_, options_.device);
  auto& modulate = groups.denoise.front();
  auto& denoise = groups.denoise.back();
  if (first_frame_ == FirstFrame::beside) {
    groups.encode_references = beside_frame_units(vae, encode, gives_last());
    denoise.reads.emplace_back("beside_latents");
    if (!reads_image()) return;
    for (auto& unit : image_state_units(kImageEncoder, seeing(), config_.image_places > 0))
      groups.encode_references.push_back(std::move(unit));
    denoise.reads.emplace_back("image_states");
    return;
  }
  groups.encode_references = held_frame_units(vae, encode);
  groups.weigh = held_frame_weights();
  modulate.writes.emplace_back("first_modulation");
  denoise.reads.insert(denoise.reads.end(), {"first_modulation", "first_latents", "sigma"});
}

void WanModel::add_control_units(UnitGroups& groups) {
  auto units = control_->encode_units(autoencoder_.recipe.name, encoding_by(autoencoder_, components_, options_.device));
  auto &modulate = groups.denoise.front(), &denoise = groups.denoise.back();
  if (reads_motion_) {
    modulate.reads.emplace_back(kMotionInput.column);
    modulate.models.push_back(kMotion);
  }
  groups.encode_references.insert(groups.encode_references.end(), units.begin(), units.end());
  for (const auto& value : control_->reads()) denoise.reads.push_back(value);
  if (!sees_reference()) return;
  // CLIP sees the reference picture in place of the first frame.
  std::erase_if(groups.encode_references, [](const auto& unit) { return contains(unit.writes, "image_states"); });
  groups.encode_references.push_back(control_->seen_reference_unit(kImageEncoder, seeing()));
  if (!contains(denoise.reads, "image_states")) denoise.reads.emplace_back("image_states");
}

void WanModel::add_vace_units(UnitGroups& groups, const std::string& dit) {
  if (!reads_vace_) return;
  const auto& vae = autoencoder_.recipe.name;
  auto encode = encoding_by(autoencoder_, components_, options_.device);
  auto units = vace_units(options_.extra_inputs, vae, encode);
  groups.encode_references.insert(groups.encode_references.end(), units.begin(), units.end());
  auto& denoise = groups.denoise.back();
  denoise.reads.emplace_back("vace_context");
  denoise.models.push_back(vace_of(dit));
  if (options_.extra_inputs.contains(kVaceReference)) groups.encode_image = latents_behind_reference(vae, encode);
}

UnitGroups WanModel::units_of(const Expert& expert) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_references = {};  // which reads the clip itself
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", "text_counts"}, {kText}, [this](Scope& s) { encode_prompt(s); }}};
  const auto dit = expert.component;
  groups.denoise = {
      {"modulate", {"sigma"}, {"modulation"}, {dit + ".modulation"}, [this, dit](Scope& s) { modulate(s, dit); }},
      {"denoise", {"noisy", "text_embedding", "text_counts", "modulation"}, {"prediction"}, {dit + ".body"}, [this, dit](Scope& s) {
         denoise(s, dit);
       }}};
  add_frame_units(groups);
  add_control_units(groups);
  add_vace_units(groups, dit);
  const auto& vae = autoencoder_.recipe.name;
  for (const auto& further : further_) further->add_units(groups, vae, encoding_by(autoencoder_, components_, options_.device));
  if (const auto num = latent_space_.streams[0].num_before; num > 0)
    groups.decode = decode_units(vae, [this, vae, num](const at::Tensor& latents) {
      return autoencoder_.decode(components_.module(vae), latents.narrow(2, num, latents.size(2) - num));
    });
  return groups;
}

}  // namespace burnish::models::wan
