#include "models/families/ltx2/model.h"

#include <ATen/ops/full.h>

#include "models/families/ltx2/autoencoder.h"
#include "models/families/ltx2/autoencoder_keys.h"
#include "models/families/ltx2/connectors.h"
#include "models/families/ltx2/file_settings.h"
#include "models/families/ltx2/keys.h"
#include "models/families/ltx2/process.h"
#include "models/files/scheduler_file.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"

namespace burnish::models::ltx2 {

namespace {

/// What stands for the decoder of frames among components where no file has one that runs here, so that drawing is refused before it
/// begins.
const std::string kDecoder = "video_decoder";
const std::string kDit = "dit", kTime = "sigma", kModulationPart = "dit.modulation", kBodyPart = "dit.body";
/// Values of sound that the denoiser reads and writes.
const std::string kSoundNoisy = kSound + "_noisy", kSoundPrediction = kSound + "_prediction";
/// Frames a second of clips for which no other rate is said.
constexpr double kFrameRate = 24;
}  // namespace

Ltx2Model::Ltx2Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto found = find_sources(files_);
  config_ = read_named(found.dit, detect);
  sound_ = std::make_unique<SoundStream>(options_, components_, files_, found.dit.entry ? config_.sound.channels : 0);
  given_ = std::make_unique<GivenFrames>(options_, config_.frames.channels);
  add_transformer(found.dit);
  add_text(found);
  add_autoencoder(found.vae);
  check_latents(found.dit, config_.frames.channels, autoencoder_);
  add(sound_->components());
  fill_names();
  fill_settings(found);
  process_ = std::make_unique<Process>(flow_config(files_, published_steps()));
}

// diffusers and SimpleTuner have our paths, and so have DiffSynth-Studio's adapters those that are called alike; ComfyUI, ai-toolkit and
// musubi-tuner's fork have the original ones.
void Ltx2Model::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, mmdit::layers_of_part);
  recipe.parts = {kModulationPart, kBodyPart};
  if (config_.projected_width > 0) recipe.parts.insert(recipe.parts.begin() + 1, kText);
  const std::string attentions = sound_->is_judged() ? R"(\w+attn\d?|attn\d)" : "attn\\d";
  ComponentNames names{
      .layers = {.weights = "",
                 .diffusers = "transformer.",
                 .kohya = "lora_transformer_",
                 .others = {"lora_unet_"},
                 .diffusers_alpha = false,
                 .comfyui_alpha = true,
                 .diffsynth = ""},
      .lora_targets = R"(transformer_blocks\.\d+\.()" + attentions + R"()\.(to_[qkv]|to_out\.0))",
      .high_precision = {"(audio_)?proj_(in|out)", "(audio_)?time_embed\\..*", "av_cross_attn_.*", "(audio_)?prompt_adaln\\..*",
                         "(audio_)?caption_projection\\..*", R"(transformer_blocks\.\d+\..*\.to_gate_logits)"},
      .foreign_layers = foreign_layers(config_),
      .written = written_layers(config_),
      .single_file = {"model.diffusion_model.", original_keys()},
      .aliases = target_names};
  // A prediction of a stream that is not judged teaches nothing, nor does what its last tokens read behind what the other stream asks them.
  const auto last = "transformer_blocks." + std::to_string(config_.num_layers - 1) + ".";
  if (!sound_->is_judged())
    names.without_gradient = {"audio_proj_out", "audio_scale_shift_table", last + "video_to_audio_attn", last + "audio_ff"};
  if (sound_->weights().frames == 0) names.without_gradient = {"proj_out", "scale_shift_table", last + "audio_to_video_attn", last + "ff"};
  add(recipe, names);
}

void Ltx2Model::add_text(const LtxSources& found) {
  auto config = read_named(found.connectors, connectors_config, config_.projected_width > 0 ? connectors_20() : ConnectorsConfig{});
  const auto encoder = read_named(found.text_encoder, text::gemma_config);
  if (found.connectors.entry && found.text_encoder.entry) config = with_states(config, encoder.width, encoder.num_layers + 1);
  const auto made = config.is_shared ? config.state_width : config.frames.width();
  const auto read = config_.projected_width > 0 ? config_.projected_width : config_.frames.caption_width;
  check_widths(found.dit, "texts", read, found.connectors, "connectors", made);
  add(gemma_part(found.text_encoder, encoder, {.comfyui = "text_encoders.gemma3_12b.transformer.", .length = kTextLength}, files_,
                 options_));
  Recipe recipe{
      .name = kConnectors,
      .what = "connectors of texts",
      .source = found.connectors,
      .build = [config](const std::string& part,
                        const at::TensorOptions& o) { return std::make_unique<Connectors>(config, o, Connectors::part_of(part)); },
      .parts = Connectors::parts()};
  add(recipe, connector_names(config));
}

std::vector<std::string> Ltx2Model::connected_names() const {
  if (config_.projected_width > 0) return {"text_states", "sound_text_states"};
  return {kTextTokens, kSoundTextTokens};
}

void Ltx2Model::add_autoencoder(const Source& source) {
  auto config = read_settings(source, kVae, autoencoder_config);
  config.tile_size = options_.get<int64_t>("vae_tile_size");
  check_tile(config.tile_size, config.downsampling());
  autoencoder_ = {
      .recipe = {.name = kVae,
                 .what = "autoencoder of frames",
                 .source = source,
                 .build = [config](const std::string&, const at::TensorOptions& o) { return std::make_unique<Autoencoder>(config, o); },
                 .dtype = at::kFloat,
                 .settings = [size = config.tile_size](const std::string&) { return "tiles " + std::to_string(size); }},
      .names = plain_names(kVae),
      .channels = config.latent_channels,
      .downsampling = config.downsampling(),
      .encode = [](nn::Module& module,
                   const at::Tensor& x) { return static_cast<Autoencoder&>(module).encode(x.dim() == 4 ? x.unsqueeze(2) : x); },
      .decode =
          [](nn::Module& module, const at::Tensor& x) {
            const auto frames = static_cast<Autoencoder&>(module).decode(x);
            if (frames.dim() == 4) return frames;
            return frames.size(2) == 1 ? frames.squeeze(2) : pixels_of(frames);
          }};
  autoencoder_.names.high_precision = {".*"};
  autoencoder_.names.single_file = {kVae + ".", original_autoencoder_keys(config.encoder.levels.size(), config.decoder.levels.size())};
  autoencoder_.names.without_gradient = {"decoder"};
  add(autoencoder_, /*patch=*/1);
  if (source.entry && !config.decoder.is_there)
    add({.name = kDecoder,
         .what = "decoder of frames (of LTX-2.5 the one of convolutions, ltx-2.5-video-vae-conv-bf16.safetensors)",
         .build = [](const std::string&, const at::TensorOptions&) -> std::unique_ptr<nn::Module> { return nullptr; }},
        plain_names(kDecoder));
  auto& frames = latent_space_.streams.front();
  frames.temporal = config.frames_per_latent();
  frames.weight = sound_->weights().frames;
  latent_space_.frames_step = config.frames_per_latent();
  latent_space_.frame_rate = kFrameRate;
  latent_space_.rate_use = Column::RateUse::read;
  if (given_->has_first()) frames.held = {GivenFrames::kFirst, given_->num_first()};
  latent_space_.streams.push_back(sound_->stream());
}

void Ltx2Model::fill_names() {
  const auto& [frames, sound] = std::pair(config_.frames, config_.sound);
  names_.family = "ltx2";
  names_.variant = version_of(config_);
  names_.file_words.base_version = "ltx2";
  names_.tokens = TokenNames{.width = frames.width()};
  names_.experts = {{kDit}};
  names_.values = {
      {"latents", {.shape = {-1, frames.channels, -1, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, -1}, .of_prompt = true, .padded = true}},
      {kSoundText, {.shape = {-1, -1, -1}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
      {kTextTokens, {.shape = {-1, -1, frames.caption_width}}},
      {kSoundTextTokens, {.shape = {-1, -1, sound.caption_width}}},
  };
  sound_->add_names(names_);
  given_->add_names(names_);
  if (options_.extra_inputs.contains(kRowRate.name)) names_.extra_inputs.push_back(kRowRate);
}

/// A file with the whole model has the settings of its parts in its metadata, where readers look for what no tensor says.
void Ltx2Model::fill_settings(const LtxSources& found) {
  auto all = sound_->settings();
  all["transformer"] = settings_of(found.dit, "transformer");
  all[kVae] = settings_of(found.vae, kVae);
  std::erase_if(all.get_ref<nlohmann::json::object_t&>(), [](const auto& section) { return section.second.is_null(); });
  if (!all.empty()) names_.file_words.settings[kSettingsKey] = all.dump();
}

void Ltx2Model::modulate(pipeline::Scope& scope) {
  scope.uses(kModulationPart);
  const auto sigma = scope.tensor(kTime).to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(kModulationPart).modulate(sigma, given_->are_any(scope), options_.dtype));
}

void Ltx2Model::denoise(pipeline::Scope& scope) {
  scope.uses(kBodyPart);
  auto here = [&](const std::string& name) { return scope.tensor(name).to(options_.device); };
  const auto& noisy = scope.tensor("noisy");
  Transformer::Inputs in{.noisy_BCFHW = noisy,
                         .sound_BCN = scope.tensor(kSoundNoisy),
                         .texts = {here(kTextTokens).to(options_.dtype), here(kSoundTextTokens).to(options_.dtype)},
                         .modulation_BM = scope.tensor("modulation"),
                         .rate_B = at::full({1}, scope.tensor(kRateOfFrames).item<double>(), noisy.options().dtype(at::kFloat))};
  given_->give(scope, in);
  const auto [frames, sound] = loaded<Transformer>(kBodyPart).forward(in);
  scope.write("prediction",
              given_->are_first(scope) ? leading_to_first(frames, noisy, scope.tensor(GivenFrames::kFirst), scope.tensor(kTime)) : frames);
  scope.write(kSoundPrediction, sound);
}

pipeline::Units Ltx2Model::denoise_units() {
  using pipeline::Scope;
  const bool projects = config_.projected_width > 0;
  const std::vector<std::string> texts{"text_embedding", kSoundText, "text_mask"}, tokens{kTextTokens, kSoundTextTokens};
  pipeline::Units units{{"connect_text", texts, connected_names(), {kConnectorsPart}, [this](Scope& s) { connect(s); }}};
  if (projects) units.push_back({"project_text", connected_names(), tokens, {kText}, [this](Scope& s) { project(s); }});
  auto times = given_->read_to_tell();
  times.push_back(kTime);
  units.push_back({"modulate", times, {"modulation"}, {kModulationPart}, [this](Scope& s) { modulate(s); }});
  std::vector<std::string> reads{"noisy", kSoundNoisy, kTextTokens, kSoundTextTokens, "modulation", kRateOfFrames};
  for (const auto& name : given_->reads()) reads.push_back(name);
  if (given_->has_first()) reads.push_back(kTime);
  units.push_back({"denoise", reads, {"prediction", kSoundPrediction}, {kBodyPart}, [this](Scope& s) { denoise(s); }});
  return units;
}

UnitGroups Ltx2Model::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {
      {"encode_prompt", {"prompt"}, {"text_embedding", kSoundText, "text_mask"}, {kEncoder, kProjectionPart}, [this](pipeline::Scope& s) {
         encode_prompt(s);
       }}};
  groups.denoise = denoise_units();
  given_->add_units(groups, kVae, encoding_by(autoencoder_, components_, options_.device));
  sound_->add_units(groups);
  if (names_.components.contains(kDecoder)) groups.decode.front().models.push_back(kDecoder);
  return groups;
}

}  // namespace burnish::models::ltx2
