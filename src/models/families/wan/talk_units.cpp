#include "models/families/wan/talk_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "base/input_error.h"
#include "diffusion/process.h"
#include "models/families/wan/frames.h"
#include "models/model/guided_step.h"

namespace burnish::models::wan {

namespace {

constexpr const char* kSoundScale = "audio_cfg_scale";
/// The value with which the authors draw.
constexpr double kUsualScale = 4;
const std::string kStates = "sound_states", kFirstOfClip = "first_latents";

/// The first frame's latents, which are those that stand beside the noise.
pipeline::Unit first_unit() {
  return {"take_first_frame", {"beside_latents"}, {kFirstOfClip}, {}, [](pipeline::Scope& s) {
            const auto& beside = s.tensor("beside_latents");
            const auto num_channels = beside.size(1) - kMaskChannels;
            s.write(kFirstOfClip, beside.narrow(1, kMaskChannels, num_channels).narrow(2, 0, 1).clone());
          }};
}

using Predict = std::function<at::Tensor(pipeline::Scope& scope, bool is_silent)>;

/// Predicts what is drawn: where no prompt guides, the sound does so alone.
pipeline::Unit draw_unit(pipeline::Unit unit, const Predict& predict, double scale) {
  if (scale != 1) unit.reads.push_back(kIsGuided);
  unit.run = [=](pipeline::Scope& s) {
    auto prediction = predict(s, false);
    const bool guides_alone = scale != 1 && s.tensor(kIsGuided).item<double>() == 0;
    s.write("prediction", guides_alone ? prediction + (prediction - predict(s, true)) * (scale - 1) : prediction);
  };
  return unit;
}

/// Predicts what guidance leads away from, and behind it what the sound adds.
pipeline::Unit away_unit(pipeline::Unit unit, const Predict& predict, double scale) {
  unit.run = [=](pipeline::Scope& s) {
    auto prediction = predict(s, false);
    s.write("prediction", scale == 1 ? prediction : at::cat({prediction, (prediction - predict(s, true)) * (scale - 1)}, 1));
  };
  return unit;
}

}  // namespace

Option sound_scale_option() {
  return {.name = kSoundScale,
          .help = "InfiniteTalk: how far drawing is led away from silence; 1: not at all",
          .otherwise = kUsualScale,
          .elsewhere = "it is of InfiniteTalk, leave it out",
          .least = 0};
}

TalkUnits::TalkUnits(const ModelOptions& options, Components& components, const ModelFiles& files, const Found& found, const Config& dit)
    : SideModule(options, components), dit_(dit) {
  if (!is_there() && options.get<double>(kSoundScale) != kUsualScale)
    config_error("models", "{} is not supported for this model; it is of InfiniteTalk, leave it out", kSoundScale);
  if (!is_there()) return;
  if (found.has_experts)
    data_error("models", "InfiniteTalk adds to one transformer, and this model has two; name that of Wan2.1-I2V-14B-480P beside it");
  hearing_.read(options, files, found.senses.audio_encoder);
  if (!hearing_.is_there()) return;
  const auto& c = hearing_.config();
  if (c.num_layers * c.width != dit.extras.talk.sound_width)
    data_error("models",
               "{}: the encoder of sounds makes {} states {} wide behind its layers, and the transformer reads {} numbers of a frame; they "
               "belong to different models, InfiniteTalk's is chinese-wav2vec2-base",
               found.senses.audio_encoder.entry->label, c.num_layers, c.width, dit.extras.talk.sound_width);
}

std::string TalkUnits::variant(bool) const { return is_there() ? "Wan2.1-InfiniteTalk-14B" : ""; }

std::vector<NamedRecipe> TalkUnits::components(const ComponentNames&) const {
  return is_there() ? std::vector{hearing_.component()} : std::vector<NamedRecipe>{};
}

void TalkUnits::add_names(Names& names) const {
  if (!is_there()) return;
  names.references.expected = kFirstFrameColumn;
  if (has(kSoundInput.name)) names.extra_inputs.push_back(kSoundInput);
  names.values[kStates] = {.shape = {-1, -1, dit_.extras.talk.sound_width}};
  names.values[kFirstOfClip] = {.shape = {-1, dit_.out_channels, 1, -1, -1}};
  names.values[kLossMap] = {};
}

/// The states behind each layer, as many as frames, those of a frame one behind the other.
pipeline::Unit TalkUnits::sound_unit() {
  return {"encode_sound", {kNumFrames, "sound"}, {kStates}, {kAudioEncoder}, [this](pipeline::Scope& s) {
            s.uses(kAudioEncoder);
            const auto frames = s.tensor(kNumFrames).item<int64_t>();
            check_has_more(frames);
            auto states = hearing_.states(loaded<Wav2Vec2>(kAudioEncoder), s.tensor("sound").to(options_.device), options_.dtype, frames);
            s.write(kStates, states.narrow(1, 1, states.size(1) - 1).transpose(1, 2).flatten(2));
          }};
}

void TalkUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!is_there()) return;
  if (!options_.references)
    config_error("models", "InfiniteTalk goes on from a picture; name {} in extra_inputs, when drawing give --reference",
                 kFirstFrameColumn);
  add_encoding(groups, {first_unit(), sound_unit()});
  groups.denoise.back().reads.emplace_back("sigma");
  groups.weigh = held_frame_weights();
  const auto scale = options_.get<double>(kSoundScale);
  groups.draw = groups.draw_away = groups.denoise;
  groups.draw.back() = draw_unit(groups.denoise.back(), parts.predict, scale);
  groups.draw_away.back() = away_unit(groups.denoise.back(), parts.predict, scale);
}

void TalkUnits::give(pipeline::Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (is_there()) in.states_BFM = here(scope, kStates);
}

at::Tensor guided_by_sound(const at::Tensor& prediction, const at::Tensor& away, double scale, double rescale) {
  const auto num_channels = prediction.size(1);
  auto guided = diffusion::guide(prediction, away.narrow(1, 0, num_channels), scale, rescale);
  return away.size(1) == num_channels ? guided : guided + away.narrow(1, num_channels, num_channels);
}

}  // namespace burnish::models::wan
