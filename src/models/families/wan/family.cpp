#include "models/model/family.h"

#include <fmt/core.h>

#include "io/model_values.h"
#include "models/families/wan/animate.h"
#include "models/families/wan/companion_files.h"
#include "models/families/wan/control.h"
#include "models/families/wan/driving.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/model.h"
#include "models/families/wan/motion.h"
#include "models/families/wan/published.h"
#include "models/families/wan/scail_units.h"
#include "models/families/wan/source_units.h"
#include "models/families/wan/speech_units.h"
#include "models/families/wan/talk_units.h"
#include "models/families/wan/vace.h"
#include "models/families/wan/vace_scale.h"
#include "models/parts/find_components.h"

namespace burnish::models::wan {

namespace {

const auto kTextPrefixes = text_prefixes({"umt5xxl"});
/// The projection of the time, in our names and in the original ones: of its kin, Wan alone has it beside a table in the last layer.
constexpr const char* kMark = "condition_embedder.time_proj.weight";
constexpr const char* kOriginalMark = "head.modulation";

/// Tensors of Wan-Animate-2's blocks in the original names, which are a segment longer than those of others, and in diffusers'.
constexpr const char *kDrivenMark = "blocks.0.block.self_attn.q.weight", *kDiffusersDrivenMark = "blocks.0.self_attn.to_q.weight";

/// A tensor of what InfiniteTalk adds.
constexpr const char* kTalkMark = "audio_proj.proj1.weight";

bool is_original(const io::TensorSource& tensors) { return tensors.contains(kOriginalMark) && !tensors.contains(kDiffusersDrivenMark); }

io::KeyMap keys_of(const io::TensorSource& tensors) {
  if (tensors.contains(kDrivenMark)) return original_driven_keys();
  if (tensors.contains(kDiffusersDrivenMark)) return diffusers_driven_keys();
  return is_original(tensors) ? original_keys() : io::KeyMap{};
}

bool is_driven(const Source& dit) {
  const bool has_mark = dit.tensors && (dit.tensors->contains(kDrivenMark) || dit.tensors->contains(kDiffusersDrivenMark));
  return has_mark || (dit.entry && io::class_name(dit.entry->config) == kDrivenClass);
}

Source find_dit(const ModelEntry& entry) {
  for (const char* mark : {kMark, kOriginalMark}) {
    if (auto tensors = find_below(entry, kDenoiserPrefixes, mark))
      return {&entry, tensors->without({"vace_", "pose_patch_embedding.", "motion_encoder.", "face_encoder.", "face_adapter."}),
              keys_of(*tensors), is_original(*tensors)};
  }
  auto name = io::class_name(entry.config);
  static const std::set<std::string> kClasses{"WanTransformer3DModel",
                                              "WanModel",
                                              "WanVACETransformer3DModel",
                                              "VaceWanModel",
                                              "WanAnimateTransformer3DModel",
                                              "WanAnimateModel",
                                              kDrivenClass,
                                              "WanModel_S2V",
                                              kTalkClass,
                                              "WanSCAILModel",
                                              "SCAIL2Model"};
  bool is_config = !entry.tensors && kClasses.contains(name);
  return is_config ? Source{&entry, std::nullopt, {}} : Source{};
}

/// What InfiniteTalk or MultiTalk adds to a transformer, in a file of its own, as their authors and ComfyUI have it. Nothing tells the two
/// apart.
Source find_talk(const ModelEntry& entry) {
  auto tensors = find_below(entry, kDenoiserPrefixes, kTalkMark);
  return tensors && !tensors->contains(kMark) && !tensors->contains(kOriginalMark) ? Source{&entry, tensors, {}} : Source{};
}

enum class Expertise { all, high_noise, low_noise };

/// Which noise an entry's denoiser is for, by the names that Wan's, ComfyUI's and diffusers' files have.
Expertise expertise_of(const ModelEntry& entry, bool has_second) {
  const auto name = entry.folder.filename().string() + "/" + entry.label;
  if (entry.component == "transformer_2" || name.find("low_noise") != name.npos) return Expertise::low_noise;
  if (name.find("high_noise") != name.npos || (entry.component == "transformer" && has_second)) return Expertise::high_noise;
  return Expertise::all;
}

/// A transformer in a file of its own stands for that of a whole model, but not for one of two where its name does not say for which.
void check_stands_for(const ModelEntry& taken, const ModelEntry& other, bool has_second) {
  const bool is_told = expertise_of(taken, has_second) != Expertise::all || expertise_of(other, has_second) == Expertise::all;
  if (taken.in_model.empty() && !other.in_model.empty() && is_told) return;
  data_error("models",
             "{} and {} both hold a transformer of Wan, and their names do not say which is for much noise and which for little; name "
             "the files or folders ..high_noise.. and ..low_noise..",
             taken.label, other.label);
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto found = find_sources(one);
  const auto& dit = found.dit();
  auto config = dit.tensors ? dit.read(detect) : Config{};
  return words_of({{dit, fmt::format("Wan transformer ({} layers, width {}, {} names)", config.num_layers, config.width(), dit.names())},
                   {found.vace.front(), "VACE"},
                   {found.animate, "Wan-Animate"},
                   {found.is_driven ? dit : Source{}, "Wan-Animate-2"},
                   {config.extras.area_channels > 0 ? dit : Source{}, "SCAIL-2"},
                   {config.extras.talk.is_there() ? dit : found.talk, "InfiniteTalk"},
                   {found.motion, "Wan motion controller"},
                   {found.text_encoder, "umT5 encoder"},
                   {found.senses.image_encoder, "CLIP image encoder"},
                   {found.senses.audio_encoder, "wav2vec2 encoder"},
                   {found.vae, "causal autoencoder"}});
}

Columns all_inputs() {
  Columns all{kStartFrame, kLastFrame};
  all.insert(all.end(), std::begin(kVaceInputs), std::end(kVaceInputs));
  all.insert(all.end(), std::begin(kControlInputs), std::end(kControlInputs));
  all.insert(all.end(), std::begin(kAnimateInputs), std::end(kAnimateInputs));
  all.insert(all.end(), std::begin(kDrivingInputs), std::end(kDrivingInputs));
  all.insert(all.end(), std::begin(kSpeechInputs), std::end(kSpeechInputs));
  all.insert(all.end(), std::begin(kScailInputs), std::end(kScailInputs));
  all.insert(all.end(), std::begin(kSourceInputs), std::end(kSourceInputs));
  all.push_back(kMotionInput);
  return all;
}

}  // namespace

Found find_sources(const ModelFiles& files) {
  Found found;
  found.text_encoder = find_t5(files, kTextPrefixes);
  found.motion = find_motion(files);
  found.vae = find_causal_autoencoder(files, vae::CausalFor::clips);
  found.senses.image_encoder = find_clip_vision(files);
  found.senses.audio_encoder = find_wav2vec2(files);
  bool has_second = files.find([](const ModelEntry& entry) { return entry.component == "transformer_2"; }) != nullptr;
  for (const auto& entry : files.entries) {
    auto expertise = expertise_of(entry, has_second);
    auto& vace = found.vace[expertise == Expertise::low_noise];
    if (!vace.entry) vace = find_vace(entry);
    if (!found.animate.entry) found.animate = find_animate(entry);
    if (!found.talk.entry) found.talk = find_talk(entry);
    auto dit = find_dit(entry);
    if (!dit.entry) continue;
    auto& slot = expertise == Expertise::low_noise ? found.low_noise : found.high_noise;
    if (slot.entry) check_stands_for(*slot.entry, entry, has_second);
    else slot = dit;
    found.has_experts = found.has_experts || expertise != Expertise::all;
    found.is_driven = found.is_driven || is_driven(dit);
  }
  for (auto* dit : {&found.high_noise, &found.low_noise}) {
    if (dit->tensors && found.talk.tensors && !dit->tensors->contains(kTalkMark)) dit->tensors = dit->tensors->joined(*found.talk.tensors);
  }
  return found;
}

extern const Family kFamily{
    .name = "wan",
    .recognises =
        [](const ModelFiles& files) {
          return files.find([](const ModelEntry& entry) { return find_dit(entry).entry != nullptr; }) != nullptr;
        },
    .open = open_as<WanModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), vace_scale_option(), audio_processor_option(), sound_scale_option(),
                first_share_option()},
    .reference_columns = {kFirstFrameColumn},
    .extra_inputs = all_inputs(),
    .denoisers = {"dit", "dit_2"},
    .variants = published(),
    .not_supported =
        {
            {"SCAIL-Preview", "it reads no areas of persons, by which SCAIL-2 tells whom a clip moves"},
            {"Bernini-Diffusers", "its experts lie behind a planner's names; Bernini-R has them as Wan 2.2 has its own"},
            {"Wan-Dancer", "it reads music"},
            {"Video-As-Prompt-Wan", "it reads a clip as its prompt, through blocks of their own"},
        },
    .companion_files = companion_files,
    .vocabulary_beside = vocabulary_beside,
};

}  // namespace burnish::models::wan
