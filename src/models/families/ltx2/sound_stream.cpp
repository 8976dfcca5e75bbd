#include "models/families/ltx2/sound_stream.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/input_error.h"
#include "models/families/ltx2/file_settings.h"
#include "models/families/ltx2/halves.h"
#include "models/families/ltx2/places.h"
#include "models/families/ltx2/sound_autoencoder.h"
#include "models/families/ltx2/vocoder.h"
#include "models/model/drawn_sound.h"

namespace burnish::models::ltx2 {

namespace {
const std::string kShown = "image";
/// Counts the frames that so many latents stand for.
int64_t frames_of(int64_t num_latents) { return (num_latents - 1) * kFramesALatent + 1; }

/// Counts the latents of sound beside a clip of so many frames, at so many a second.
int64_t num_beside(int64_t num_frames, const at::Tensor& rate) {
  return num_of_line(static_cast<double>(num_frames) / rate.item<double>(), kSoundLatentsASecond);
}

/// A component of sound, which computes in fp32, of which no weight is stored as codes and none trains.
template <class Module, class Config>
NamedRecipe component(const std::string& name, const char* what, const Source& source, const Config& config, const FileNames& in_one_file) {
  Recipe recipe{.name = name,
                .what = what,
                .source = source,
                .build = [config](const std::string&, const at::TensorOptions& o) { return std::make_unique<Module>(config, o); },
                .dtype = at::kFloat};
  auto names = plain_names(name);
  names.high_precision = {".*"};
  names.single_file = in_one_file;
  names.without_gradient = {""};
  return {recipe, names};
}
}  // namespace

SoundStream::SoundStream(const ModelOptions& options, Components& components, const ModelFiles& files, int64_t channels)
    : options_(options),
      components_(components),
      weights_(loss_weights(options, kSoundInput)),
      source_(find_sound(files)),
      vocoder_source_(find_vocoder(files)) {
  config_ = read_settings(source_, kAudioVae, sound_config);
  vocoder_ = read_settings(vocoder_source_, kVocoder, vocoder_config);
  channels_ = channels > 0 ? channels : config_.width();
  if (source_.entry && config_.width() != channels_)
    data_error("models",
               "{}: the autoencoder of sound makes {} numbers a latent, and the transformer reads {}; they belong to different models",
               source_.entry->label, config_.width(), channels_);
  const auto num_bands = config_.num_sides * config_.bands.num_bands;
  if (can_sound() && vocoder_.first.num_bands != num_bands)
    data_error("models", "{}: the vocoder reads {} bands, and the autoencoder of sound makes {}; they belong to different models",
               vocoder_source_.entry->label, vocoder_.first.num_bands, num_bands);
}

std::vector<NamedRecipe> SoundStream::components() const {
  // A vocoder is one network, or two of which the first is called vocoder as well.
  const FileNames in_one_file{vocoder_.second ? kVocoder + "." : "", original_vocoder_keys()};
  auto vocoder = component<Vocoder>(kVocoder, "vocoder", vocoder_source_, vocoder_, in_one_file);
  vocoder.names.folder_file = {"", folder_vocoder_keys(vocoder_)};
  return {component<SoundAutoencoder>(kAudioVae, "autoencoder of sound", source_, config_, {kAudioVae + ".", original_statistics()}),
          std::move(vocoder)};
}

LatentSpace::Stream SoundStream::stream() const {
  return {.name = kSound,
          .channels = channels_,
          .spatial = 0,
          .temporal = kSoundLatentsASecond,
          .weight = weights_.sound,
          .is_of_samples = is_encoded(),
          .num_before = 1};
}

nlohmann::json SoundStream::settings() const {
  auto settings = nlohmann::json::object();
  settings[kAudioVae] = settings_of(source_, kAudioVae);
  settings[kVocoder] = settings_of(vocoder_source_, kVocoder);
  return settings;
}

void SoundStream::add_names(Names& names) const {
  names.values[kSound] = {.shape = {-1, channels_, -1}};
  if (!is_encoded()) return;
  auto column = kSoundInput;
  column.rate = config_.bands.rate;
  names.extra_inputs.push_back(column);
}

/// Zeros are the mean of all sounds, of which noise leaves nothing that could be told from another's.
pipeline::Unit SoundStream::stand_unit() const {
  return {"stand_for_sound", {kLatents, kRateOfFrames}, {kSound}, {}, [this](pipeline::Scope& s) {
            const auto& latents = s.tensor(kLatents);
            const auto count = num_beside(frames_of(latents.dim() == 5 ? latents.size(2) : 1), s.tensor(kRateOfFrames));
            s.write(kSound, at::zeros({latents.size(0), channels_, count}, latents.options().dtype(at::kFloat)));
          }};
}

/// A sound that is not there has samples that are no numbers; its latents are zeros. The last latent of a clip's sound may reach beyond its
/// frames, and is left out; where it ends within them, the sound is not filled up behind it.
pipeline::Unit SoundStream::encode_unit() const {
  const bool learns_silence = options_.get<bool>(kSilence);
  return {"encode_sound",
          {kNumFrames, kSoundInput.read_as(), kRateOfFrames},
          {kSound, kHasSound},
          {kAudioVae},
          [this, learns_silence](pipeline::Scope& s) {
            s.uses(kAudioVae);
            const auto count = num_beside(s.tensor(kNumFrames).item<int64_t>(), s.tensor(kRateOfFrames));
            const auto samples = s.tensor(kSoundInput.read_as()).to(options_.device);
            const auto least = std::max<int64_t>(count - 1, 1) * config_.step_of_levels() * config_.bands.step;
            const auto [heard, has_B11] = heard_sounds(samples, std::max(samples.size(2), least), learns_silence);
            const auto latents = static_cast<const SoundAutoencoder&>(components_.module(kAudioVae)).encode(heard);
            s.write(kSound, latents.narrow(2, 0, count) * has_B11);
            s.write(kHasSound, has_B11);
          },
          false,
          pipeline::Weights::trained,
          learns_silence ? "what is missing is silence" : ""};
}

pipeline::Unit SoundStream::decode_unit() const {
  return {"decode_sound", {kSound, kShown}, {kDrawnSound, kDrawnSoundRate}, {kAudioVae, kVocoder}, [this](pipeline::Scope& s) {
            s.uses(kAudioVae);
            s.uses(kVocoder);
            const auto& latents = s.tensor(kSound);
            const auto& autoencoder = static_cast<const SoundAutoencoder&>(components_.module(kAudioVae));
            const auto& vocoder = static_cast<const Vocoder&>(components_.module(kVocoder));
            const bool is_picture = s.tensor(kShown).dim() == 4;
            auto sound = is_picture ? at::empty({latents.size(0), config_.num_sides, 0})
                                    : vocoder.forward(autoencoder.decode(latents.to(at::kFloat)));
            s.write(kDrawnSound, sound);
            s.write(kDrawnSoundRate, at::full({}, vocoder_.rate, at::kLong));
          }};
}

void SoundStream::add_units(UnitGroups& groups) const {
  groups.encode_image.push_back(is_encoded() ? encode_unit() : stand_unit());
  if (is_judged()) groups.weigh.push_back(weigh_sound(kSound, kHasSound));
  if (can_sound()) groups.decode.push_back(decode_unit());
}

}  // namespace burnish::models::ltx2
