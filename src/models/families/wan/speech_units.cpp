#include "models/families/wan/speech_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "base/input_error.h"
#include "models/families/wan/frames.h"
#include "models/model/negative_prompt.h"
#include "models/parts/shared_components.h"

namespace burnish::models::wan {

namespace {

/// States that wav2vec 2.0 makes of a second, and those that frames choose among.
constexpr int64_t kStateRate = 50, kChosenRate = 30;

}  // namespace

at::Tensor states_of_frames(const at::Tensor& states, int64_t frames, double seconds) {
  const auto count = states.size(2) * kChosenRate / kStateRate;
  auto lines = states.transpose(2, 3).flatten(0, 1);  // [B S, W, T]
  auto chosen = at::upsample_linear1d(lines, {count}, /*align_corners=*/true).unflatten(0, {states.size(0), -1});
  nn::Tensors all;
  for (int64_t i = 1; i < frames; ++i) {
    const auto place = std::llrint(static_cast<double>(i) * seconds * static_cast<double>(kChosenRate));
    all.push_back(place < count ? chosen.select(3, place) : at::zeros_like(chosen.select(3, 0)));
  }
  return at::stack(all, 2);
}

SpeechUnits::SpeechUnits(const ModelOptions& options, Components& components, const ModelFiles& files, const Found& found,
                         const Config& dit)
    : SideModule(options, components), dit_(dit) {
  if (is_there()) hearing_.read(options, files, found.senses.audio_encoder);
  else if (!dit.extras.talk.is_there()) refuse_audio_processor(options);
  if (!hearing_.is_there()) return;
  const auto& c = hearing_.config();
  const auto& speech = dit.extras.speech;
  if (c.width != speech.sound_width || c.num_states() != speech.num_states)
    data_error("models",
               "{}: the encoder of sounds makes {} states {} wide, and the transformer reads {} of {}; they belong to different models",
               found.senses.audio_encoder.entry->label, c.num_states(), c.width, speech.num_states, speech.sound_width);
}

std::string SpeechUnits::variant(bool) const { return is_there() ? "Wan2.2-S2V-14B" : ""; }

std::vector<NamedRecipe> SpeechUnits::components(const ComponentNames&) const {
  return is_there() ? std::vector{hearing_.component()} : std::vector<NamedRecipe>{};
}

void SpeechUnits::add_names(Names& names) const {
  if (!is_there()) return;
  for (const auto& input : kSpeechInputs) {
    if (has(input.name)) names.extra_inputs.push_back(input);
  }
  const auto& speech = dit_.extras.speech;
  names.values["sound_states"] = {.shape = {-1, speech.num_states, -1, speech.sound_width}};
  names.values[kIsNegative] = {.shape = {-1, 1}, .of_prompt = true};
  names.values["pose_latents"] = {.shape = {-1, speech.pose_channels, -1, -1, -1}};
}

pipeline::Unit SpeechUnits::sound_unit() {
  return {"encode_sound", {kNumFrames, "sound"}, {"sound_states"}, {kAudioEncoder}, [this](pipeline::Scope& s) {
            s.uses(kAudioEncoder);
            const auto& sound = s.tensor("sound");
            const auto frames = s.tensor(kNumFrames).item<int64_t>();
            check_has_more(frames);
            const auto states = hearing_.states(loaded<Wav2Vec2>(kAudioEncoder), sound.to(options_.device), options_.dtype);
            const auto seconds = static_cast<double>(sound.size(1)) / static_cast<double>(kSoundRate) / static_cast<double>(frames);
            s.write("sound_states", states_of_frames(states, frames, seconds));
          }};
}

/// The first pose stands for the reference's frame as well, whose latents are left out. Without poses they are black, as in Wan's own code.
pipeline::Unit SpeechUnits::pose_unit(const std::string& vae, const Encode& encode) const {
  const bool has_poses = has(kSpeechPoses);
  const std::string column = has_poses ? kSpeechPoses : "image";
  return {"encode_poses", {column}, {"pose_latents"}, {vae}, [=](pipeline::Scope& s) {
            s.uses(vae);
            auto clip = as_clip(s.tensor(column));
            check_has_more(clip.size(2));
            if (!has_poses) clip = at::full_like(clip, -1);
            const auto rest = clip.narrow(2, 1, clip.size(2) - 1);
            auto latents = encode(at::cat({rest.narrow(2, 0, 1), rest}, 2)).mean_BCHW;
            s.write("pose_latents", latents.narrow(2, 1, latents.size(2) - 1));
          }};
}

void SpeechUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (!is_there()) return;
  if (!options_.references)
    config_error("models", "Wan-S2V goes on from a picture; name {} in extra_inputs, when drawing give --reference", kFirstFrameColumn);
  groups.encode_prompt.push_back(mark_prompt_unit());
  add_encoding(groups, {sound_unit(), pose_unit(parts.vae, parts.encode)});
  groups.denoise.back().reads.push_back(kIsNegative);
}

void SpeechUnits::give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) {
  if (!is_there()) return;
  auto& speech = loaded<Transformer>(dit + ".body").speech();
  in.given_place = kReferencePlace;
  in.added_BDFHW = speech.added_patches(here(scope, "pose_latents"));
  const auto is_heard = 1 - here(scope, kIsNegative).view({-1, 1, 1, 1});  // guidance leads away from silence
  in.hints = speech.hints(here(scope, "sound_states") * is_heard);
}

}  // namespace burnish::models::wan
