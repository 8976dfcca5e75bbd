#include "models/family.h"

#include <fmt/core.h>

#include "io/model_values.h"
#include "models/find_components.h"
#include "models/not_supported.h"
#include "models/wan/animate.h"
#include "models/wan/control.h"
#include "models/wan/keys.h"
#include "models/wan/model.h"
#include "models/wan/motion.h"
#include "models/wan/vace.h"
#include "models/wan/vace_scale.h"

namespace burnish::models::wan {

namespace {

/// Prefixes under which single files keep the text encoder: none, or those of ComfyUI's checkpoints.
const std::vector<std::string> kTextPrefixes{"", "text_encoders.umt5xxl.transformer.", "text_encoders.umt5xxl."};
/// The projection of the time, in our names and in the original ones: of its kin, Wan alone has it beside a table in the last layer.
constexpr const char* kMark = "condition_embedder.time_proj.weight";
constexpr const char* kOriginalMark = "head.modulation";

bool is_original(const io::TensorSource& tensors) { return tensors.contains(kOriginalMark); }

Source find_dit(const ModelEntry& entry) {
  for (const char* mark : {kMark, kOriginalMark}) {
    if (auto tensors = find_below(entry, kTransformerPrefixes, mark))
      return {&entry, tensors->without({"vace_", "pose_patch_embedding.", "motion_encoder.", "face_encoder.", "face_adapter."}),
              is_original(*tensors) ? original_keys() : io::KeyMap{}};
  }
  auto name = io::class_name(entry.config);
  static const std::set<std::string> kClasses{"WanTransformer3DModel",        "WanModel",       "WanVACETransformer3DModel", "VaceWanModel",
                                              "WanAnimateTransformer3DModel", "WanAnimateModel"};
  bool is_config = !entry.tensors && kClasses.contains(name);
  return is_config ? Source{&entry, std::nullopt, {}} : Source{};
}

enum class Expertise { all, high_noise, low_noise };

/// Which noise an entry's denoiser is for, by the names that Wan's, ComfyUI's and diffusers' files have.
Expertise expertise_of(const ModelEntry& entry, bool has_second) {
  const auto name = entry.folder.filename().string() + "/" + entry.label;
  if (entry.component == "transformer_2" || name.find("low_noise") != name.npos) return Expertise::low_noise;
  if (name.find("high_noise") != name.npos || (entry.component == "transformer" && has_second)) return Expertise::high_noise;
  return Expertise::all;
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto found = find_sources(one);
  const auto& dit = found.dit();
  auto config = dit.tensors ? dit.read(detect) : Config{};
  return words_of({{dit, fmt::format("Wan transformer ({} layers, width {}, {} names)", config.num_layers, config.width(),
                                     dit.tensors && is_original(*dit.tensors) ? "original" : "diffusers")},
                   {found.vace.front(), "VACE"},
                   {found.animate, "Wan-Animate"},
                   {found.motion, "Wan motion controller"},
                   {found.text_encoder, "umT5 encoder"},
                   {found.image_encoder, "CLIP image encoder"},
                   {found.vae, "causal autoencoder"}});
}

text::T5Config published_text_config() { return {.vocab_size = 256384, .bias_by_layer = true}; }

/// The autoencoder of Wan 2.1.
vae::CausalConfig published_vae_config() { return {.in_time = true, .halves_frames = {false, true, true}}; }

/// That of Wan 2.2's TI2V-5B.
vae::CausalConfig published_residual_vae_config() {
  return {.first_channels = 160,
          .block_out_channels = {160, 320, 640, 640},
          .decoder_channels = {256, 512, 1024, 1024},
          .latent_channels = 48,
          .in_time = true,
          .halves_frames = {false, true, true},
          .shortcuts = true,
          .patch = 2};
}

constexpr UsualDrawing kDrawn{.side = 512, .num_inference_steps = 50, .cfg_scale = 5};
constexpr UsualDrawing kDrawnLarge{.side = 960, .num_inference_steps = 50, .cfg_scale = 5};

std::vector<ModelEntry> named_sizes(std::string_view name, const Config& config, const vae::CausalConfig& vae = published_vae_config()) {
  std::vector<ModelEntry> entries{sizes_of<Transformer, Config>(name, config), sizes_of<text::T5Encoder>(name, published_text_config()),
                                  sizes_of<vae::CausalAutoencoder>(name, vae)};
  if (config.image_width > 0) entries.push_back(sizes_of<ClipVision, ClipVisionConfig>(name, {}));
  return entries;
}

/// A model of two transformers, of which diffusers' folders call the one for little noise transformer_2.
std::vector<ModelEntry> named_experts(std::string_view name, const Config& config) {
  auto entries = named_sizes(name, config);
  entries.push_back(entries.front());
  entries.front().component = "transformer";
  entries.back().component = "transformer_2";
  return entries;
}

/// What picture to video adds to Wan2.1-T2V-14B; first and last frame also have `places`.
Config reading_image(int64_t places = 0) { return {.in_channels = 36, .image_width = 1280, .extras = {.image_places = places}}; }

std::vector<ModelEntry> named_with_vace(std::string_view name, const Config& config, const VaceConfig& vace_config) {
  auto entries = named_sizes(name, config);
  Vace vace(config, vace_config, at::TensorOptions().device(at::kMeta));
  entries.push_back(sizes_of(name, vace));
  return entries;
}

std::vector<ExtraInput> all_inputs() {
  std::vector<ExtraInput> all{kStartFrame, kLastFrame};
  all.insert(all.end(), std::begin(kVaceInputs), std::end(kVaceInputs));
  all.insert(all.end(), std::begin(kControlInputs), std::end(kControlInputs));
  all.insert(all.end(), std::begin(kAnimateInputs), std::end(kAnimateInputs));
  all.push_back(kMotionInput);
  return all;
}

constexpr const char *kSmallVace = "wan-vace-1.3b", *kLargeVace = "wan-vace-14b";

std::vector<ModelEntry> small_vace() {
  VaceConfig config{.num_blocks = 15, .layers = {}};
  return named_with_vace(kSmallVace, {.num_layers = 30, .num_heads = 12, .hidden = 8960}, config);
}

constexpr const char* kNamedAnimate = "wan-animate-14b";

std::vector<ModelEntry> named_animate() {
  auto entries = named_sizes(kNamedAnimate, reading_image());
  Animate animate({}, {}, at::TensorOptions().device(at::kMeta));
  entries.push_back(sizes_of(kNamedAnimate, animate));
  return entries;
}

}  // namespace

Found find_sources(const ModelFiles& files) {
  Found found;
  found.text_encoder = find_t5(files, kTextPrefixes);
  found.motion = find_motion(files);
  found.vae = find_causal_autoencoder(files, vae::CausalFor::clips);
  found.image_encoder = find_clip_vision(files);
  bool has_second = files.find([](const ModelEntry& entry) { return entry.component == "transformer_2"; }) != nullptr;
  for (const auto& entry : files.entries) {
    auto expertise = expertise_of(entry, has_second);
    if (auto vace = find_vace(entry); vace.entry) found.vace[expertise == Expertise::low_noise] = vace;
    if (auto animate = find_animate(entry); animate.entry) found.animate = animate;
    auto dit = find_dit(entry);
    if (!dit.entry) continue;
    auto& slot = expertise == Expertise::low_noise ? found.low_noise : found.high_noise;
    if (slot.entry)
      data_error("models",
                 "{} and {} both hold a transformer of Wan, and their names do not say which is for much noise and which for little; name "
                 "the files or folders ..high_noise.. and ..low_noise..",
                 slot.entry->label, entry.label);
    slot = dit;
    found.has_experts = found.has_experts || expertise != Expertise::all;
  }
  return found;
}

extern const std::vector<NotSupported> kNotSupported{
    {"LongCat-Video", "its blocks are not those of Wan, whose text encoder and autoencoder it has"},
    {"Wan-Dancer", "it reads music"},
    {"Video-As-Prompt-Wan", "it reads a clip as its prompt, through blocks of their own"},
};

extern const Family kFamily{
    .name = "wan",
    .recognises =
        [](const ModelFiles& files) {
          return files.find([](const ModelEntry& entry) { return find_dit(entry).entry != nullptr; }) != nullptr;
        },
    .open = open_as<WanModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option(), vace_scale_option()},
    .reference_columns = {kFirstFrameColumn},
    .extra_inputs = all_inputs(),
    .variants =
        {{"wan-t2v-1.3b", [] { return named_sizes("wan-t2v-1.3b", {.num_layers = 30, .num_heads = 12, .hidden = 8960}); },
          "Wan2.1-T2V-1.3B", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", kDrawn},
         {"wan-t2v-14b", [] { return named_sizes("wan-t2v-14b", {}); }, "Wan2.1-T2V-14B", "Wan-AI/Wan2.1-T2V-14B-Diffusers", kDrawn},
         {"wan-i2v-14b-480p", [] { return named_sizes("wan-i2v-14b-480p", reading_image()); }, "Wan2.1-I2V-14B",
          "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", kDrawn},
         {"wan-i2v-14b-720p", [] { return named_sizes("wan-i2v-14b-720p", reading_image()); }, "Wan2.1-I2V-14B",
          "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers", kDrawnLarge},
         {"wan-flf2v-14b", [] { return named_sizes("wan-flf2v-14b", reading_image(514)); }, "Wan2.1-FLF2V-14B",
          "Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers", kDrawnLarge},
         {"wan-t2v-a14b", [] { return named_experts("wan-t2v-a14b", {}); }, "Wan2.2-T2V-A14B", "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
          UsualDrawing{.side = 512, .num_inference_steps = 40, .cfg_scale = 4}},
         {"wan-i2v-a14b", [] { return named_experts("wan-i2v-a14b", {.in_channels = 36}); }, "Wan2.2-I2V-A14B",
          "Wan-AI/Wan2.2-I2V-A14B-Diffusers", UsualDrawing{.side = 512, .num_inference_steps = 40, .cfg_scale = 3.5}},
         {"wan-ti2v-5b",
          [] {
            Config config{.in_channels = 48, .out_channels = 48, .num_layers = 30, .num_heads = 24, .hidden = 14336};
            return named_sizes("wan-ti2v-5b", config, published_residual_vae_config());
          },
          "Wan2.2-TI2V-5B", "Wan-AI/Wan2.2-TI2V-5B-Diffusers", UsualDrawing{.side = 704, .num_inference_steps = 50, .cfg_scale = 5}},
         {kSmallVace, small_vace, "Wan2.1-VACE-1.3B", "Wan-AI/Wan2.1-VACE-1.3B-diffusers", kDrawn},
         {kLargeVace, [] { return named_with_vace(kLargeVace, {}, {}); }, "Wan2.1-VACE-14B", "Wan-AI/Wan2.1-VACE-14B-diffusers", kDrawn},
         {kNamedAnimate, named_animate, "Wan2.2-Animate-14B", "Wan-AI/Wan2.2-Animate-14B-Diffusers",
          UsualDrawing{.side = 960, .num_inference_steps = 20, .cfg_scale = 1}}},
};

}  // namespace burnish::models::wan
