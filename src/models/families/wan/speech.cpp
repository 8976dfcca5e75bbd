#include "models/families/wan/speech.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>

#include <algorithm>

#include "kernels/modulated_norm/modulated_norm.h"

namespace burnish::models::wan {

namespace {

constexpr double kInjectorEps = 1e-5;
/// Frames that are taken to sound before the clip as its first does, and the frames of latents that they would be.
constexpr int64_t kFramesBefore = 73, kLatentsBefore = 19;

/// A convolution of squares of latents that do not overlap.
kernels::Window patches_of(int64_t frames, int64_t side) { return {{frames, side, side}, {frames, side, side}, {0, 0, 0}, {1, 1, 1}}; }

}  // namespace

/// Has the tokens of each frame {[B, L, D]} attend to those of its sound, {.., [B, f, D], [B, f, N, D]} -> {what is added to them}. What
/// sounds in the frame as a whole modulates them before.
class Speech::Injector : public nn::Block {
 public:
  Injector(const Config& c, const at::TensorOptions& o) : attention_(c, /*image=*/false, o), modulation_(c.width(), 2 * c.width(), o) {
    own("", attention_);
    own("adain.linear", modulation_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    const auto &tokens = in[0], &whole = in[1], &sound = in[2];
    auto modulation = modulation_.forward(at::silu(whole.flatten(0, 1))).chunk(2, -1);  // shift, scale
    auto apart = tokens.unflatten(1, {whole.size(1), -1}).flatten(0, 1);
    auto normed = kernels::modulated_norm(apart, modulation[1], modulation[0], kInjectorEps);
    return {attention_.to_others(normed, sound.flatten(0, 1), {}, {}).reshape(tokens.sizes())};
  }

 private:
  Attention attention_;
  nn::Linear modulation_;
};

Speech::Speech(const Config& dit, const at::TensorOptions& o)
    : layers_(dit.extras.speech.layers),
      pose_in_(dit.extras.speech.pose_channels, dit.width(), patches_of(1, kPatch), o),
      weights_(at::empty({1, dit.extras.speech.num_states, 1, 1}, o)),
      encoder_({.in = dit.extras.speech.sound_width,
                .first = dit.width() / 4,
                .second = dit.width() / 2,
                .third = dit.width(),
                .num_tokens = dit.extras.speech.num_tokens,
                .has_whole = true},
               o),
      kinds_(3, dit.width(), o) {
  own("cond_encoder", pose_in_);
  own("casual_audio_encoder.weights", weights_);
  own("casual_audio_encoder.encoder", encoder_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    injectors_.push_back(std::make_unique<Injector>(dit, o));
    own("audio_injector.injector." + std::to_string(i), *injectors_.back());
  }
  own("trainable_cond_mask", kinds_);
  if (!dit.extras.speech.has_packer) return;
  for (const auto& [name, frames] : {std::pair("proj", 1), {"proj_2x", 2}, {"proj_4x", 4}}) {
    packers_.push_back(std::make_unique<nn::Conv>(dit.out_channels, dit.width(), patches_of(frames, 2 * frames), o));
    own(std::string("frame_packer.") + name, *packers_.back());
  }
}

Speech::~Speech() = default;

at::Tensor Speech::added_patches(const at::Tensor& poses) const {
  auto kind = [&](int64_t row) { return kinds_.weight.select(0, row).view({1, -1, 1, 1, 1}); };
  auto noisy = pose_in_.forward(poses) + kind(0);
  auto shape = noisy.sizes().vec();
  shape[2] = 1;
  return at::cat({kind(1).expand(shape), noisy}, 2);
}

FrameTokens::Made Speech::heard(const at::Tensor& states) const {
  auto weights = at::silu(weights_);
  auto mean = (states * weights / weights.sum(1, /*keepdim=*/true)).sum(1);  // [B, F, W]
  auto made = encoder_.forward(at::cat({mean.narrow(1, 0, 1).expand({-1, kFramesBefore, -1}), mean}, 1));
  auto of_clip = [](const at::Tensor& x) { return x.narrow(1, kLatentsBefore, x.size(1) - kLatentsBefore); };
  return {of_clip(made.tokens_BFND), of_clip(made.whole_BFD)};
}

Hints Speech::hints(const at::Tensor& states) {
  return [this, states](const nn::Tensors& of_block) {
    const auto sound = heard(states);
    const auto frames = frames_here(shares(), sound.whole_BFD.size(1), of_block[kCosOfBlock].size(0), /*num_given=*/1);
    auto here = [&](const at::Tensor& of_frames) { return of_frames.narrow(1, frames.first, frames.count); };
    return [this, frames, whole = here(sound.whole_BFD), apart = here(sound.tokens_BFND)](int64_t block,
                                                                                          const at::Tensor& tokens) -> at::Tensor {
      auto* injector = behind(block);
      if (injector == nullptr) return {};
      return frames.whole(tokens, [&](const at::Tensor& of_frames) { return injector->run({of_frames, whole, apart})[0]; });
    };
  };
}

bool Speech::begins_as_zero(const std::string& path) {
  if (path.starts_with("cond_encoder.") || path.starts_with("trainable_cond_mask.")) return true;
  return path.starts_with("audio_injector.") && (path.find(".to_out.0.") != path.npos || path.find(".adain.") != path.npos);
}

void Speech::initialise() { weights_.fill_(0.01); }

nn::Block* Speech::behind(int64_t block) const {
  auto place = std::ranges::find(layers_, block);
  return place == layers_.end() ? nullptr : injectors_[static_cast<size_t>(place - layers_.begin())].get();
}

}  // namespace burnish::models::wan
