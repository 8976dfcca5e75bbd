#include "models/families/wan/speech_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/families/wan/frames.h"
#include "models/model/negative_prompt.h"
#include "models/parts/shared_components.h"

namespace burnish::models::wan {

namespace {

/// Samples of a sound a second, states that wav2vec 2.0 makes of them, and those that frames choose among.
constexpr double kSampleRate = 16000;
constexpr int64_t kStateRate = 50, kChosenRate = 30;
constexpr const char* kProcessor = "audio_processor_path";

/// Reads what preprocessor_config.json says of sounds; without one they are normalized.
bool normalizes(const ModelFiles& files, const ModelEntry& encoder, const std::string& chosen) {
  const char* name = "preprocessor_config.json";
  const auto path = chosen.empty() ? encoder.folder / name : find_tokenizer(files, chosen, "").value_or(chosen) / name;
  if (!io::is_there(path) && chosen.empty()) return true;
  if (!io::is_there(path)) data_error("models", "the {} {} holds no {}; name the folder that has it", kProcessor, chosen, name);
  return naming(path.string(), [&] {
    const auto json = io::read_json(path);
    int64_t rate = static_cast<int64_t>(kSampleRate);
    bool does = true;
    io::take(json, "sampling_rate", rate, kProcessor);
    io::take(json, "do_normalize", does, kProcessor);
    if (rate != static_cast<int64_t>(kSampleRate))
      data_error("models", "sounds are of {} samples a second there, and {} were expected, as wav2vec2 hears them", rate, kSampleRate);
    return does;
  });
}

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

Option audio_processor_option() {
  return {.name = kProcessor,
          .help = "folder of the sound encoder's preprocessor_config.json, where it is not beside the encoder",
          .otherwise = std::string(),
          .elsewhere = "it is of Wan-S2V, leave it out"};
}

SpeechUnits::SpeechUnits(const ModelOptions& options, Components& components, const ModelFiles& files, const Found& found,
                         const Config& dit)
    : SideModule(options, components), source_(found.senses.audio_encoder), dit_(dit) {
  const auto& chosen = options.get<std::string>(kProcessor);
  if (!is_there() && !chosen.empty())
    config_error("models", "{} is not supported for this model; it is of Wan-S2V, leave it out", kProcessor);
  if (!is_there() || !source_.entry) return;
  normalizes_ = normalizes(files, *source_.entry, chosen);
  config_ = read_named(source_, wav2vec2_config);
  const auto& speech = dit.extras.speech;
  if (config_.width != speech.sound_width || config_.num_states() != speech.num_states)
    data_error("models",
               "{}: the encoder of sounds makes {} states {} wide, and the transformer reads {} of {}; they belong to different models",
               source_.entry->label, config_.num_states(), config_.width, speech.num_states, speech.sound_width);
}

std::string SpeechUnits::variant(bool) const { return is_there() ? "Wan2.2-S2V-14B" : ""; }

std::vector<NamedRecipe> SpeechUnits::components(const ComponentNames&) const {
  if (!is_there()) return {};
  auto recipe = wav2vec2_recipe(kAudioEncoder, source_, config_);
  recipe.settings = [does = normalizes_](const std::string&) { return does ? "sounds normalized" : "sounds as they are"; };
  return {{recipe, wav2vec2_names(kAudioEncoder)}};
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
            auto& encoder = loaded<Wav2Vec2>(kAudioEncoder);
            const auto samples = sound.to(options_.device);
            auto states = encoder.states((normalizes_ ? heard(samples) : samples).to(options_.dtype));
            s.write("sound_states",
                    states_of_frames(states, frames, static_cast<double>(sound.size(1)) / kSampleRate / static_cast<double>(frames)));
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
