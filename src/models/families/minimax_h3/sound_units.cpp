#include "models/families/minimax_h3/sound_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "base/input_error.h"
#include "models/families/minimax_h3/places.h"
#include "models/model/drawn_sound.h"
#include "models/parts/find_components.h"

namespace burnish::models::minimax_h3 {

namespace {

/// The frames of a clip in a second.
constexpr int64_t kFramesASecond = 24;
const std::string kImage = "image";

/// Counts the latents of a side beside so many frames.
int64_t num_of_side(int64_t num_frames) {
  return std::llround(static_cast<double>(num_frames * kLatentsASecond) / static_cast<double>(kFramesASecond));
}

}  // namespace

std::vector<Option> sound_options() {
  auto options = sound_loss_options();
  options.insert(
      options.begin(),
      {.name = kSoundOption,
       .help = "what stands for the sound of stills and clips that have none, of MiniMax-H3: noise (as ai-toolkit and ComfyUI have it) "
               "or none (SimpleTuner, diffusion-pipe)",
       .otherwise = std::string("noise"),
       .elsewhere = "it is of MiniMax-H3, leave it out",
       .choices = {"noise", "none"}});
  return options;
}

SoundUnits::SoundUnits(const ModelOptions& options, Components& components, const Source& source, int64_t channels)
    : options_(options), components_(components), source_(source), channels_(channels) {
  is_seen_ = options.get<std::string>(kSoundOption) == "noise";
  if (options.extra_inputs.contains(kSoundInput.name) && !is_seen_)
    config_error("models",
                 "{} none takes all sound out of what the model sees, and extra_inputs {} has it learned; take one of the two out",
                 kSoundOption, kSoundInput.name);
  weights_ = loss_weights(options, kSoundInput);
  if (!source_.entry) {
    if (channels > 0) config_.latent_channels = channels;
    channels_ = config_.latent_channels;
    return;
  }
  config_ = read_named(source_, sound_config);
  if (channels == 0) channels_ = config_.latent_channels;
  else if (config_.latent_channels != channels)
    data_error("models",
               "{}: the autoencoder of sound makes {} numbers a latent, and the transformer reads {}; they belong to different models",
               source_.entry->label, config_.latent_channels, channels);
}

std::vector<NamedRecipe> SoundUnits::components() const {
  const auto config = config_;
  Recipe recipe{.name = kAudioVae,
                .what = "autoencoder of sound",
                .source = source_,
                .build = [config](const std::string&, const at::TensorOptions& o) { return std::make_unique<SoundAutoencoder>(config, o); },
                .dtype = at::kFloat};
  auto names = plain_names(kAudioVae);
  names.high_precision = {".*"};
  names.single_file = {"audio_vae.", {}};
  names.without_gradient = {"encoder", "pre_block", "mean_proj", "dec_in_proj", "decoder"};
  return {{recipe, names}};
}

LatentSpace::Stream SoundUnits::stream() const {
  return {.name = kSound,
          .channels = channels_,
          .spatial = 0,
          .temporal = kLatentsASecond,
          .weight = weights_.sound,
          .is_of_samples = is_encoded(),
          .num_before = kSides};
}

void SoundUnits::add_names(Names& names) const {
  if (!is_seen_) return;
  names.values[kSound] = {.shape = {-1, channels_, -1}};
  if (!is_encoded()) return;
  auto column = kSoundInput;
  column.rate = config_.rate;
  names.extra_inputs.push_back(column);
}

/// Zeros are the mean of all sounds, of which noise leaves nothing that could be told from another's.
pipeline::Unit SoundUnits::stand_unit() const {
  return {"stand_for_sound", {kLatents}, {kSound}, {}, [this](pipeline::Scope& s) {
            const auto& latents = s.tensor(kLatents);
            const auto count = num_of_side(frames_of_latents(latents.dim() == 5 ? latents.size(2) : 1));
            s.write(kSound, at::zeros({latents.size(0), channels_, kSides * count}, latents.options().dtype(at::kFloat)));
          }};
}

/// A sound that is not there has samples that are no numbers; its latents are zeros.
pipeline::Unit SoundUnits::encode_unit() const {
  const bool learns_silence = options_.get<bool>(kSilence);
  return {"encode_sound",
          {kNumFrames, kSoundInput.read_as()},
          {kSound, kHasSound},
          {kAudioVae},
          [this, learns_silence](pipeline::Scope& s) {
            s.uses(kAudioVae);
            const auto samples = s.tensor(kSoundInput.read_as()).to(options_.device);
            const auto count = num_of_side(s.tensor(kNumFrames).item<int64_t>());
            const auto [heard, has_B11] = heard_sounds(samples, count * config_.samples_per_latent(), learns_silence);
            const auto& autoencoder = static_cast<const SoundAutoencoder&>(components_.module(kAudioVae));
            const auto latents = autoencoder.encode(heard.flatten(0, 1)).unflatten(0, {-1, kSides}).transpose(1, 2);
            s.write(kSound, latents.flatten(2) * has_B11);
            s.write(kHasSound, has_B11);
          },
          false,
          pipeline::Weights::trained,
          learns_silence ? "what is missing is silence" : ""};
}

pipeline::Unit SoundUnits::encode_list_unit(const std::string& from, const std::string& to) const {
  const bool can_encode = source_.entry != nullptr;
  return {
      "encode_given_sounds", {from}, {to}, can_encode ? std::vector{kAudioVae} : std::vector<std::string>{}, [=, this](pipeline::Scope& s) {
        if (can_encode) s.uses(kAudioVae);
        pipeline::Value list = s.value(from);
        pipeline::change_tensors(list, [&](const at::Tensor& given) {
          if (given.dim() != 2) return given;
          if (given.size(1) == 0) return at::zeros({channels_, 0}, given.options());
          if (!can_encode)
            data_error("models", "a reference sounds, and no file of this run holds the autoencoder of sound; name its file too");
          const auto& autoencoder = static_cast<const SoundAutoencoder&>(components_.module(kAudioVae));
          return autoencoder.encode(given.to(options_.device)).transpose(0, 1).flatten(1).contiguous();
        });
        s.write(to, std::move(list));
      }};
}

pipeline::Unit SoundUnits::decode_unit() const {
  return {"decode_sound", {kSound, kImage}, {kDrawnSound, kDrawnSoundRate}, {kAudioVae}, [this](pipeline::Scope& s) {
            s.uses(kAudioVae);
            const auto& latents = s.tensor(kSound);
            const bool is_picture = s.tensor(kImage).dim() == 4;
            const auto& autoencoder = static_cast<const SoundAutoencoder&>(components_.module(kAudioVae));
            at::Tensor sound = at::empty({latents.size(0), kSides, 0});
            if (!is_picture) {
              const auto sides = latents.unflatten(2, {kSides, -1}).transpose(1, 2).flatten(0, 1);
              sound = autoencoder.decode(sides).unflatten(0, {-1, kSides});
            }
            s.write(kDrawnSound, sound);
            s.write(kDrawnSoundRate, at::full({}, config_.rate, at::kLong));
          }};
}

void SoundUnits::add_units(UnitGroups& groups) const {
  if (!is_seen_) return;
  groups.encode_image.push_back(is_encoded() ? encode_unit() : stand_unit());
  if (is_learned()) groups.weigh.push_back(weigh_sound(kSound, kHasSound));
  if (components_.has(kAudioVae)) groups.decode.push_back(decode_unit());
}

}  // namespace burnish::models::minimax_h3
