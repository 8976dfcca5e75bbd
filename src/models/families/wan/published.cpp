#include "models/families/wan/published.h"

#include "models/families/wan/animate.h"
#include "models/families/wan/transformer.h"
#include "models/families/wan/vace.h"
#include "models/parts/clip_vision.h"
#include "models/parts/umt5.h"
#include "models/parts/wav2vec2.h"
#include "models/vae/causal_autoencoder.h"

namespace burnish::models::wan {

namespace {

/// The autoencoder of Wan 2.1.
vae::CausalConfig published_vae_config() { return {.in_time = true, .halves_frames = {false, true, true}}; }

/// Returns the configuration of TI2V-5B's autoencoder (Wan 2.2).
vae::CausalConfig published_residual_vae_config() {
  return {.first_channels = 160,
          .block_out_channels = {160, 320, 640, 640},
          .decoder_channels = {256, 512, 1024, 1024},
          .latent_channels = 48,
          .in_time = true,
          .halves_frames = {false, true, true},
          .shortcuts = true,
          .pixels = {.patch = 2}};
}

constexpr UsualDrawing kDrawn{.side = 512, .num_inference_steps = 50, .cfg_scale = 5};
constexpr UsualDrawing kDrawnLarge{.side = 960, .num_inference_steps = 50, .cfg_scale = 5};

std::vector<ModelEntry> named_sizes(std::string_view name, const Config& config, const vae::CausalConfig& vae = published_vae_config()) {
  std::vector<ModelEntry> entries{sizes_of<Transformer, Config>(name, config), sizes_of<text::T5Encoder>(name, umt5_xxl()),
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

/// Returns what picture to video adds to Wan2.1-T2V-14B; first and last frame also have `places`.
Config reading_image(int64_t places = 0) { return {.in_channels = 36, .image_width = 1280, .extras = {.image_places = places}}; }

Config small() { return {.num_layers = 30, .num_heads = 12, .hidden = 8960}; }

/// Returns what the Fun models read beside the noise: so many channels in all, CLIP's states where they are of Wan 2.1, and what
/// ControlConfig says.
Config fun(Config config, int64_t in_channels, const Extras& extras = {}, bool sees = true) {
  config.in_channels = in_channels;
  config.image_width = sees ? 1280 : 0;
  config.extras = extras;
  return config;
}
const Extras kWithReference{.has_reference = true}, kWithCamera{.has_camera = true};

std::vector<ModelEntry> named_with_vace(std::string_view name, const Config& config, const VaceConfig& vace_config) {
  auto entries = named_sizes(name, config);
  Vace vace(config, vace_config, at::TensorOptions().device(at::kMeta));
  entries.push_back(sizes_of(name, vace));
  return entries;
}

/// A module of VACE beside each of two transformers.
std::vector<ModelEntry> named_experts_with_vace(std::string_view name) {
  auto entries = named_experts(name, {});
  Vace vace({}, {}, at::TensorOptions().device(at::kMeta));
  for (const char* beside : {"transformer", "transformer_2"}) {
    entries.push_back(sizes_of(name, vace));
    entries.back().component = beside;
  }
  return entries;
}

std::vector<ModelEntry> named_animate(std::string_view name) {
  auto entries = named_sizes(name, reading_image());
  Animate animate({}, {}, at::TensorOptions().device(at::kMeta));
  entries.push_back(sizes_of(name, animate));
  return entries;
}

std::vector<ModelEntry> named_speech(std::string_view name) {
  auto entries = named_sizes(name, {.extras = {.speech = {.layers = kPublishedHearing, .has_packer = true}}});
  entries.push_back(sizes_of<Wav2Vec2, Wav2Vec2Config>(name, {}));
  return entries;
}

/// Returns the components of InfiniteTalk and MultiTalk: those of picture to video, what is added to its transformer, and what hears.
std::vector<ModelEntry> named_talk(std::string_view name) {
  auto config = reading_image();
  config.extras.talk.sound_width = 12 * kStateWidth;
  auto entries = named_sizes(name, config);
  const Wav2Vec2Config hearing{.norms = Wav2Vec2Config::Norms::behind,
                               .width = kStateWidth,
                               .hidden = 3072,
                               .num_layers = 12,
                               .num_heads = 12,
                               .convolutions = {.has_biases = false}};
  entries.push_back(sizes_of<Wav2Vec2, Wav2Vec2Config>(name, hearing));
  return entries;
}

/// Returns the components of Wan-Animate-2, whose shapes are those of picture to video; config.json tells it.
std::vector<ModelEntry> named_driven(std::string_view name) {
  auto config = reading_image();
  config.extras.driving.is_read = true;
  auto entries = named_sizes(name, config);
  entries.front().config = {{"_class_name", kDrivenClass}};
  return entries;
}

/// Returns the components of SCAIL-2, which reads the noise and a mask of what has none.
std::vector<ModelEntry> named_scail(std::string_view name) {
  return named_sizes(name, {.in_channels = 20, .image_width = 1280, .extras = {.area_channels = 28}});
}

/// The Fun models, of which those of two versions that read the same are of the same sizes.
std::vector<Variant> fun_models() {
  return {
      {"wan-fun-1.3b-inp", [] { return named_sizes("wan-fun-1.3b-inp", fun(small(), 36)); }, "Wan2.1-Fun-1.3B-InP",
       "alibaba-pai/Wan2.1-Fun-1.3B-InP", kDrawn},
      {"wan-fun-14b-inp", [] { return named_sizes("wan-fun-14b-inp", fun({}, 36)); }, "Wan2.1-I2V-14B", "alibaba-pai/Wan2.1-Fun-14B-InP",
       kDrawn},
      {"wan-fun-v1.1-1.3b-inp", [] { return named_sizes("wan-fun-v1.1-1.3b-inp", fun(small(), 36)); }, "Wan2.1-Fun-1.3B-InP",
       "alibaba-pai/Wan2.1-Fun-V1.1-1.3B-InP", kDrawn},
      {"wan-fun-v1.1-14b-inp", [] { return named_sizes("wan-fun-v1.1-14b-inp", fun({}, 36)); }, "Wan2.1-I2V-14B",
       "alibaba-pai/Wan2.1-Fun-V1.1-14B-InP", kDrawn},
      {"wan-fun-1.3b-control", [] { return named_sizes("wan-fun-1.3b-control", fun(small(), 48)); }, "Wan2.1-Fun-1.3B-Control",
       "alibaba-pai/Wan2.1-Fun-1.3B-Control", kDrawn},
      {"wan-fun-14b-control", [] { return named_sizes("wan-fun-14b-control", fun({}, 48)); }, "Wan2.1-Fun-14B-Control",
       "alibaba-pai/Wan2.1-Fun-14B-Control", kDrawn},
      {"wan-fun-v1.1-1.3b-control", [] { return named_sizes("wan-fun-v1.1-1.3b-control", fun(small(), 48, kWithReference)); },
       "Wan2.1-Fun-1.3B-Control", "alibaba-pai/Wan2.1-Fun-V1.1-1.3B-Control", kDrawn},
      {"wan-fun-v1.1-14b-control", [] { return named_sizes("wan-fun-v1.1-14b-control", fun({}, 48, kWithReference)); },
       "Wan2.1-Fun-14B-Control", "alibaba-pai/Wan2.1-Fun-V1.1-14B-Control", kDrawn},
      {"wan-fun-v1.1-1.3b-camera", [] { return named_sizes("wan-fun-v1.1-1.3b-camera", fun(small(), 32, kWithCamera)); },
       "Wan2.1-Fun-1.3B-Control-Camera", "alibaba-pai/Wan2.1-Fun-V1.1-1.3B-Control-Camera", kDrawn},
      {"wan-fun-v1.1-14b-camera", [] { return named_sizes("wan-fun-v1.1-14b-camera", fun({}, 32, kWithCamera)); },
       "Wan2.1-Fun-14B-Control-Camera", "alibaba-pai/Wan2.1-Fun-V1.1-14B-Control-Camera", kDrawn},
      {"wan-fun-a14b-inp", [] { return named_experts("wan-fun-a14b-inp", fun({}, 36, {}, false)); }, "Wan2.2-I2V-A14B",
       "alibaba-pai/Wan2.2-Fun-A14B-InP", kDrawn},
      {"wan-fun-a14b-control", [] { return named_experts("wan-fun-a14b-control", fun({}, 52, kWithReference, false)); },
       "Wan2.2-Fun-A14B-Control", "alibaba-pai/Wan2.2-Fun-A14B-Control", kDrawn},
      {"wan-fun-a14b-camera", [] { return named_experts("wan-fun-a14b-camera", fun({}, 36, kWithCamera, false)); },
       "Wan2.2-Fun-A14B-Control-Camera", "alibaba-pai/Wan2.2-Fun-A14B-Control-Camera", kDrawn},
      {"wan-vace-fun-a14b", [] { return named_experts_with_vace("wan-vace-fun-a14b"); }, "Wan2.2-VACE-Fun-A14B",
       "alibaba-pai/Wan2.2-VACE-Fun-A14B", kDrawn},
  };
}

}  // namespace

std::vector<Variant> published() {
  std::vector<Variant> all{
      {"wan-t2v-1.3b", [] { return named_sizes("wan-t2v-1.3b", small()); }, "Wan2.1-T2V-1.3B", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", kDrawn},
      {"wan-t2v-14b", [] { return named_sizes("wan-t2v-14b", {}); }, "Wan2.1-T2V-14B", "Wan-AI/Wan2.1-T2V-14B-Diffusers", kDrawn},
      {"wan-i2v-14b-480p", [] { return named_sizes("wan-i2v-14b-480p", reading_image()); }, "Wan2.1-I2V-14B",
       "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", kDrawn},
      {"wan-i2v-14b-720p", [] { return named_sizes("wan-i2v-14b-720p", reading_image()); }, "Wan2.1-I2V-14B",
       "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers", kDrawnLarge},
      {"wan-flf2v-14b", [] { return named_sizes("wan-flf2v-14b", reading_image(514)); }, "Wan2.1-FLF2V-14B",
       "Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers", kDrawnLarge},
      {"wan-t2v-a14b", [] { return named_experts("wan-t2v-a14b", {}); }, "Wan2.2-T2V-A14B", "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
       UsualDrawing{.side = 512, .num_inference_steps = 40, .cfg_scale = 4}},
      // Its experts are distilled, for few steps without guidance.
      {"animegen-t2v", [] { return named_experts("animegen-t2v", {}); }, "Wan2.2-T2V-A14B", "aidealab/AnimeGen-T2V",
       UsualDrawing{.side = 512, .num_inference_steps = 8, .cfg_scale = 1}},
      // Trained and drawn from texts alone, these are Wan's; what they edit by adds no weights.
      {"bernini-r", [] { return named_experts("bernini-r", {}); }, "Wan2.2-T2V-A14B", "ByteDance/Bernini-R",
       UsualDrawing{.side = 480, .num_inference_steps = 40, .cfg_scale = 4}},
      {"bernini-r-1.3b", [] { return named_sizes("bernini-r-1.3b", small()); }, "Wan2.1-T2V-1.3B", "ByteDance/Bernini-R-1.3B-Diffusers",
       UsualDrawing{.side = 480, .num_inference_steps = 40, .cfg_scale = 4}},
      {"wan-i2v-a14b", [] { return named_experts("wan-i2v-a14b", {.in_channels = 36}); }, "Wan2.2-I2V-A14B",
       "Wan-AI/Wan2.2-I2V-A14B-Diffusers", UsualDrawing{.side = 512, .num_inference_steps = 40, .cfg_scale = 3.5}},
      {"wan-ti2v-5b",
       [] {
         Config config{.in_channels = 48, .out_channels = 48, .num_layers = 30, .num_heads = 24, .hidden = 14336};
         return named_sizes("wan-ti2v-5b", config, published_residual_vae_config());
       },
       "Wan2.2-TI2V-5B", "Wan-AI/Wan2.2-TI2V-5B-Diffusers", UsualDrawing{.side = 704, .num_inference_steps = 50, .cfg_scale = 5}},
      {"wan-vace-1.3b", [] { return named_with_vace("wan-vace-1.3b", small(), {.num_blocks = 15, .layers = {}}); }, "Wan2.1-VACE-1.3B",
       "Wan-AI/Wan2.1-VACE-1.3B-diffusers", kDrawn},
      {"wan-vace-14b", [] { return named_with_vace("wan-vace-14b", {}, {}); }, "Wan2.1-VACE-14B", "Wan-AI/Wan2.1-VACE-14B-diffusers",
       kDrawn},
      {"wan-animate-14b", [] { return named_animate("wan-animate-14b"); }, "Wan2.2-Animate-14B", "Wan-AI/Wan2.2-Animate-14B-Diffusers",
       UsualDrawing{.side = 960, .num_inference_steps = 20, .cfg_scale = 1}},
      {"wan-animate-2-14b", [] { return named_driven("wan-animate-2-14b"); }, "Wan2.2-Animate-2-14B", "Wan-AI/Wan2.2-Animate-2-14B",
       UsualDrawing{.side = 704, .num_inference_steps = 40, .cfg_scale = 3}},
      {"wan-scail-2-14b", [] { return named_scail("wan-scail-2-14b"); }, "Wan2.1-SCAIL-2-14B", "zai-org/SCAIL-2",
       UsualDrawing{.side = 512, .num_inference_steps = 40, .cfg_scale = 5}},
      {"wan-s2v-14b", [] { return named_speech("wan-s2v-14b"); }, "Wan2.2-S2V-14B", "Wan-AI/Wan2.2-S2V-14B",
       UsualDrawing{.side = 512, .num_inference_steps = 40, .cfg_scale = 4.5}},
      {"wan-infinitetalk-14b", [] { return named_talk("wan-infinitetalk-14b"); }, "Wan2.1-InfiniteTalk-14B", "MeiGen-AI/InfiniteTalk",
       UsualDrawing{.side = 640, .num_inference_steps = 40, .cfg_scale = 5}},
  };
  for (const auto& model : fun_models()) all.push_back(model);
  return all;
}

}  // namespace burnish::models::wan
