#include "models/families/wan/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "diffusion/flow_process.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/families/wan/animate_units.h"
#include "models/families/wan/control.h"
#include "models/families/wan/diffsynth_cache.h"
#include "models/families/wan/driving.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/motion_units.h"
#include "models/families/wan/scail_units.h"
#include "models/families/wan/source_units.h"
#include "models/families/wan/speech_units.h"
#include "models/families/wan/talk_units.h"
#include "models/families/wan/vace_units.h"
#include "models/files/scheduler_file.h"
#include "models/parts/shared_units.h"
#include "models/parts/umt5.h"

namespace burnish::models::wan {

namespace {

const std::string kImageEncoder = "image_encoder", kFirstLatents = "first_latents";
/// Layers of InfiniteTalk's that adapters are on too when no targets are named.
constexpr const char* kTalkTargets = ",audio_cross_attn.q_linear,audio_cross_attn.kv_linear,audio_cross_attn.proj";
/// The noise at which the experts meet: of text to video, and of picture to video (Wan-Video: wan/configs).
constexpr double kTextBoundary = 0.875, kPictureBoundary = 0.9;

/// Returns what model_index.json says of that noise.
double boundary_of(const ModelFiles& files, double otherwise) {
  auto index = files.in_pipeline("model_index.json");
  if (index) io::take(io::read_json(*index), "boundary_ratio", otherwise, "model");
  if (!(otherwise > 0 && otherwise < 1))
    data_error("models", "model_index.json says boundary_ratio = {}; a number between 0 and 1 was expected", otherwise);
  return otherwise;
}

/// Returns what shapes tell of a published model's name; the experts of A14B, each alone, are as Wan2.1-T2V-14B.
std::string variant_of(const Config& c, bool has_experts) {
  if (has_experts) return c.in_channels > c.out_channels ? "Wan2.2-I2V-A14B" : "Wan2.2-T2V-A14B";
  if (c.out_channels == 48) return "Wan2.2-TI2V-5B";
  const std::string size = c.width() == 1536 ? "-1.3B" : c.width() == 5120 ? "-14B" : "";
  if (c.extras.image_places > 0) return "Wan2.1-FLF2V" + size;
  if (c.image_width > 0) return size == "-1.3B" ? "Wan2.1-Fun-1.3B-InP" : "Wan2.1-I2V" + size;
  return "Wan2.1-T2V" + size;
}

}  // namespace

WanModel::WanModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto found = find_sources(files_);
  for (const auto* dit : {&found.low_noise, &found.high_noise}) {
    if (dit->entry) config_ = read_named(*dit, found.is_driven ? detect_driven : detect);
  }
  autoencoder_ = causal_part(found.vae, options_, vae::CausalFor::clips);
  const auto vae_config = read_named(found.vae, vae::causal_config);
  if (!found.has_dit() && reads_driving(options_))
    config_ = driven_config_of(autoencoder_.channels, read_named(found.text_encoder, text::t5_config).width,
                               read_named(found.senses.image_encoder, clip_vision_config).width);
  if (!found.has_dit() && reads_scail(options_))
    config_ = scail_config_of(autoencoder_.channels, read_named(found.text_encoder, text::t5_config).width,
                              read_named(found.senses.image_encoder, clip_vision_config).width);
  first_frame_ = first_frame_of(config_, vae_config);
  if (!options_.references && options_.extra_inputs.contains(kLastFrame.name))
    config_error(
        "models",
        "end_image is a clip's last frame and goes with its first; name input_image in extra_inputs too, when drawing --reference");
  if (!options_.references && options_.extra_inputs.contains(kStartFrame.name))
    config_error("models",
                 "start_image has pictures in place of a clip's first frame; name input_image in extra_inputs too, when drawing give "
                 "--reference instead");
  if (options_.get<double>(kFirstShare) < 1 && (!gives(FirstFrame::held) || config_.extras.speech.is_there()))
    config_error("models",
                 "{} is for a model that can do without the first frame that extra_inputs {} gives it (TI2V-5B), and {}; take it out",
                 kFirstShare, kFirstFrameColumn, options_.references ? "this one always reads one" : "none is given");
  has_start_ = options_.references && first_frame_ != FirstFrame::none && !found.animate.entry;
  make_side_modules(found);
  fill_names(found);
  add_components(found);
  for (const auto& module : side_modules_) latent_space_.streams[0].num_before += module->picture_before().empty() ? 0 : 1;
  latent_space_.frames_step = latent_space_.streams[0].temporal = vae_config.frames_per_latent();
  latent_space_.frame_rate = frame_rate_of(config_, vae_config);
  if (config_.extras.area_channels > 0) latent_space_.side *= 2;  // of half their sides driving clips are tokens too
  if (gives(FirstFrame::held) || config_.extras.talk.is_there()) latent_space_.streams[0].held.name = kFirstLatents;
  // DiffSynth-Studio encodes Animate's picture and clip as one, and its caches hold other latents.
  if (found.animate.entry || config_.extras.driving.is_read) names_.values["latents"].diffsynth = {};
  else add_diffsynth_values(names_, config_);
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {.shift = 5.0, .use_dynamic_shifting = false}),
                                                      diffusion::GridConfig{.shift = 5.0, .last = 0});
}

void WanModel::make_side_modules(const Found& found) {
  side_modules_.push_back(std::make_unique<MotionUnits>(options_, components_, found, config_));
  side_modules_.push_back(std::make_unique<Control>(options_, components_, config_, found.has_dit()));
  side_modules_.push_back(std::make_unique<VaceUnits>(options_, components_, found, config_));
  side_modules_.push_back(std::make_unique<AnimateUnits>(options_, components_, found.animate, config_));
  side_modules_.push_back(std::make_unique<DrivingUnits>(options_, components_, config_));
  side_modules_.push_back(std::make_unique<SpeechUnits>(options_, components_, files_, found, config_));
  side_modules_.push_back(std::make_unique<TalkUnits>(options_, components_, files_, found, config_));
  side_modules_.push_back(std::make_unique<ScailUnits>(options_, components_, config_));
  side_modules_.push_back(std::make_unique<SourceUnits>(options_, components_, config_, found.has_dit()));
  for (const auto& module : side_modules_) {
    if (auto column = module->picture_before(); !column.empty() && options_.latents != "mean")
      config_error("models", "latents sample draws them at every visit, and those of {} are the mean; take one of them out", column);
  }
}

void WanModel::add_components(const Found& found) {
  const auto text_config = read_named(found.text_encoder, text::t5_config);
  const Source* of_expert[] = {&found.high_noise, &found.low_noise};
  for (size_t i = 0; i < names_.experts.size(); ++i) {
    const auto& dit = names_.experts[i].component;
    check_latents(*of_expert[i], config_.out_channels, autoencoder_);
    check_widths(*of_expert[i], "texts", config_.caption_width, found.text_encoder, "text encoder", text_config.width);
    add_transformer(dit, *of_expert[i]);
    for (const auto& module : side_modules_) add(module->components_beside(names_.of(dit), i));
  }
  for (const auto& module : side_modules_) add(module->components(names_.of("dit")));
  add(umt5_part(found.text_encoder, text_config, files_, options_));
  add_image_encoder(found);
  add(autoencoder_, kPatch);
}

void WanModel::add_transformer(const std::string& name, const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, mmdit::layers_of_part);
  recipe.name = name;
  recipe.parts = {name + ".modulation", name + ".body"};
  recipe.blocks = [](nn::Module& whole) { return static_cast<Transformer&>(whole).blocks(); };
  const bool is_second = name != "dit", is_driven = config_.extras.driving.is_read;
  // Of SCAIL-2 a folder is its authors', as diffusers has no class for it.
  const auto in_folder = is_driven ? diffusers_driven_keys() : config_.extras.area_channels > 0 ? original_keys() : io::KeyMap();
  const auto in_both = in_both_of(is_second);
  add(recipe, {.layers = {.weights = "",
                          .diffusers = is_second ? "transformer_2." : "transformer.",
                          .kohya = "lora_transformer_",
                          .others = {is_second ? "transformer." : in_both},
                          .diffusers_alpha = false,
                          .comfyui_alpha = false},  // diffusers' loader refuses that of layers outside of the blocks
               .lora_targets =
                   std::string("to_q,to_k,to_v,to_out.0,ffn.net.0.proj,ffn.net.2") + (config_.extras.talk.is_there() ? kTalkTargets : ""),
               .high_precision = high_precision_layers(config_),
               .without_gradient = {"frame_packer"},
               .foreign_layers = foreign_layers(config_, in_both),
               .written = written_layers(config_),
               .folder_file = {"", in_folder},
               .single_file = {"model.diffusion_model.", is_driven ? original_driven_keys() : original_keys()},
               .aliases = is_driven ? driven_target_names : target_names});
}

void WanModel::add_image_encoder(const Found& found) {
  if (!reads_image()) return;
  const auto& source = found.senses.image_encoder;
  clip_config_ = read_named(source, clip_vision_config);
  const auto& dit = found.dit();
  check_widths(dit, "pictures", config_.image_width, source, "image encoder", clip_config_.width);
  const auto of_both = 2 * clip_config_.num_places;
  if (dit.entry && source.entry && config_.extras.image_places > 0 && config_.extras.image_places != of_both)
    data_error("models",
               "the transformer has places for {} states of first and last frame, and the image encoder makes {} of them; they "
               "belong to different models",
               config_.extras.image_places, of_both);
  add(clip_vision_recipe(kImageEncoder, source, clip_config_), clip_vision_names(kImageEncoder, clip_config_));
}

void WanModel::fill_names(const Found& found) {
  names_.family = "wan";
  for (const auto& module : side_modules_) {
    if (names_.variant.empty()) names_.variant = module->variant(found.has_experts);
  }
  // What makes another model of the transformer has it see clips or pictures.
  const bool sees = config_.in_channels > config_.out_channels || !names_.variant.empty();
  if (names_.variant.empty() && first_frame_ == FirstFrame::beside) names_.references.expected = kFirstFrameColumn;
  if (names_.variant.empty()) names_.variant = variant_of(config_, found.has_experts);
  const bool is_small_22 = config_.out_channels == 48;  // the latents of Wan2.2's own autoencoder
  const auto version = found.has_experts ? "wan_2.2_14b" : is_small_22 ? "wan_2.2_5b" : "wan_2.1";
  names_.file_words = {"wan2.1", "https://github.com/Wan-Video/Wan2.1", version};
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  if (found.has_experts) {
    auto boundary = boundary_of(files_, sees ? kPictureBoundary : kTextBoundary);
    names_.experts = {{"dit", "high_noise", {boundary, 1}}, {"dit_2", "low_noise", {0, boundary}}};
  }
  names_.values = {
      {"latents", {.shape = {-1, config_.out_channels, -1, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_counts", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
  };
  for (const auto& module : side_modules_) module->add_names(names_);
  if (!options_.references || first_frame_ == FirstFrame::none) return;
  names_.references.column = kFirstFrameColumn;
  if (first_frame_ == FirstFrame::held) {
    names_.values["first_latents"] = {.shape = {-1, config_.out_channels, 1, -1, -1}};
    names_.values["loss_map"] = {};
    held_at().add_names(names_);
  } else names_.values["beside_latents"] = {.shape = {-1, kMaskChannels + config_.out_channels, -1, -1, -1}};
  if (reads_image()) names_.values["image_states"] = {.shape = {-1, -1, config_.image_width}};
  if (given_frames(false).has_column) names_.extra_inputs.push_back(kStartFrame);
  if (gives_last()) names_.extra_inputs.push_back(kLastFrame);
}

void WanModel::modulate(pipeline::Scope& scope, const std::string& dit) {
  const auto part = dit + ".modulation";
  scope.uses(part);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  auto& transformer = loaded<Transformer>(part);
  auto modulation = transformer.modulate(sigma);
  for (const auto& module : side_modules_) {
    auto more = module->modulation(scope);
    if (more.defined()) modulation = modulation + at::constant_pad_nd(more, {0, config_.width()});  // none for the last norm
  }
  scope.write("modulation", modulation);
  if (gives(FirstFrame::held)) scope.write("first_modulation", transformer.modulate(at::zeros_like(sigma)));
}

diffusion::Guide WanModel::guide() const { return config_.extras.talk.is_there() ? guided_by_sound : AssembledModel::guide(); }

at::Tensor WanModel::predicted(pipeline::Scope& scope, const std::string& dit, bool is_silent) {
  const auto part = dit + ".body";
  scope.uses(part);
  const auto noisy = scope.tensor("noisy");
  Transformer::Inputs in{.noisy_BCFHW = noisy,
                         .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                         .counts_BT = scope.tensor("text_counts").to(options_.device),
                         .modulation_BM = scope.tensor("modulation")};
  const bool is_held = gives(FirstFrame::held) && held_at().tell(scope);
  const bool leads_to_first = is_held || config_.extras.talk.is_there();
  if (is_held) {
    in.noisy_BCFHW = with_first(noisy, scope.tensor(kFirstLatents));
    in.given_modulation_BM = scope.tensor("first_modulation");
    in.num_given = 1;
  } else if (first_frame_ == FirstFrame::beside) {
    in.noisy_BCFHW = behind_noise(scope, leads_to_first ? with_first(noisy, scope.tensor(kFirstLatents)) : noisy);
  }
  if (reads_image()) in.image_BNW = image_states(scope, noisy.size(0));
  for (const auto& module : side_modules_) module->give(scope, dit, in);
  if (is_silent) in.states_BFM = at::zeros_like(in.states_BFM);
  auto prediction = loaded<Transformer>(part).forward(in);
  return leads_to_first ? leading_to_first(prediction, noisy, scope.tensor(kFirstLatents), scope.tensor("sigma")) : prediction;
}

/// The noisy latents, and behind them along the channels what the transformer reads beside.
at::Tensor WanModel::behind_noise(pipeline::Scope& scope, const at::Tensor& noisy) {
  nn::Tensors all{noisy};
  auto num_channels = config_.in_channels - noisy.size(1);
  for (const auto& module : side_modules_) {
    auto more = module->behind_noise(scope, noisy);
    if (!more.defined()) continue;
    num_channels -= more.size(1);
    all.push_back(more);
  }
  auto shape = noisy.sizes().vec();
  shape[1] = num_channels;
  all.push_back(options_.references ? wan::behind_noise(config_, scope.tensor("beside_latents").to(noisy.options()), num_channels)
                                    : at::zeros(shape, noisy.options()));
  return at::cat(all, 1);
}

at::Tensor WanModel::image_states(pipeline::Scope& scope, int64_t batch_size) const {
  if (options_.references) return scope.tensor("image_states").to(options_.device);
  const auto num_rows = config_.extras.image_places > 0 ? config_.extras.image_places : clip_config_.num_places;
  return at::zeros({batch_size, num_rows, config_.image_width}, at::TensorOptions().device(options_.device).dtype(options_.dtype));
}

/// Returns what CLIP makes of pictures [B, 3, H, W].
std::function<at::Tensor(const at::Tensor&)> WanModel::seeing() {
  return [this](const at::Tensor& image) {
    auto& encoder = loaded<ClipVision>(kImageEncoder);
    return encoder.states_before_last(seen_by_clip(image, clip_config_.image_size()).to(options_.device, options_.dtype));
  };
}

/// Adds the units of given frames, where a run gives them.
void WanModel::add_frame_units(UnitGroups& groups, const ModelParts& parts) {
  if (!options_.references || first_frame_ == FirstFrame::none) return;
  const auto &vae = parts.vae, &image_encoder = parts.image_encoder;
  auto& modulate = groups.denoise.front();
  auto& denoise = groups.denoise.back();
  if (first_frame_ == FirstFrame::beside) {
    groups.encode_references = beside_frame_units(vae, parts.encode, given_frames(gives_last()));
    denoise.reads.emplace_back("beside_latents");
    if (!reads_image()) return;
    for (auto& unit : image_state_units(image_encoder, parts.see, given_frames(config_.extras.image_places > 0)))
      groups.encode_references.push_back(std::move(unit));
    denoise.reads.emplace_back("image_states");
    return;
  }
  const auto given = given_frames(false);
  const auto columns = given.has_column ? std::vector<std::string>{kStartFrame.name} : std::vector<std::string>{};
  groups.encode_references = held_frame_units(vae, parts.encode, columns, frames_of_column(given));
  groups.weigh = held_frame_weights(1, held_at());
  held_at().add_to(denoise.reads);
  modulate.writes.emplace_back("first_modulation");
  denoise.reads.insert(denoise.reads.end(), {"first_modulation", kFirstLatents, "sigma"});
}

UnitGroups WanModel::units_of(const Expert& expert) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_references = {};  // which reads the clip itself
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding", "text_counts"}, {kUmt5}, [this](Scope& s) {
                             encode_by_umt5(s, components_, options_.device, s.text("prompt"));
                           }}};
  const auto dit = expert.component;
  groups.denoise = {
      {"modulate", {"sigma"}, {"modulation"}, {dit + ".modulation"}, [this, dit](Scope& s) { modulate(s, dit); }},
      {"denoise", {"noisy", "text_embedding", "text_counts", "modulation"}, {"prediction"}, {dit + ".body"}, [this, dit](Scope& s) {
         s.write("prediction", predicted(s, dit));
       }}};
  const auto& vae = autoencoder_.recipe.name;
  const ModelParts parts{
      {dit, vae, encoding_by(autoencoder_, components_, options_.device), autoencoder_.downsampling},
      kImageEncoder,
      seeing(),
      kUmt5,
      [this](Scope& s, const std::string& text, const std::string& name) { encode_by_umt5(s, components_, options_.device, text, name); },
      [this, dit](Scope& s, bool is_silent) { return predicted(s, dit, is_silent); }};
  add_frame_units(groups, parts);
  for (const auto& module : side_modules_) module->add_units(groups, parts);
  if (const auto num = latent_space_.streams[0].num_before; num > 0)
    groups.decode = decode_units(vae, [this, vae, num](const at::Tensor& latents) {
      return autoencoder_.decode(components_.module(vae), latents.narrow(2, num, latents.size(2) - num));
    });
  return groups;
}

}  // namespace burnish::models::wan
