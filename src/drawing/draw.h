#pragma once
#include "data/sound.h"
#include "drawing/encode.h"
#include "drawing/noise.h"

namespace burnish::drawing {

/// Entries of a file's metadata that say how pictures are to be drawn with what is in it: the times of a walk (DrawOptions::times) with
/// commas between, and the sampler.
inline const char *const kTimesKey = "sampling_sigmas", *const kSamplerKey = "sampling_sampler";

/// Options of drawing that all pictures share, beside what each says of itself.
struct DrawOptions {
  std::string sampler = "default", timestep_spacing = "default";  ///< see diffusion::SamplerOptions
  std::vector<double> times = {};  ///< see diffusion::SamplerOptions; all pictures have a step less than there are
  int64_t batch_size = 1;
  c10::Device device = c10::Device(c10::DeviceType::CPU);  ///< the model's device
};

/// Throws a config Error for a size that does not divide, a sampler that does not fit the model, reference pictures or further inputs that
/// it does not read, or inputs that are missing; nothing has to be loaded.
void check(const models::Model& model, const std::vector<Picture>& pictures, const DrawOptions& options);

/// The steps that `draw` takes in all; a batch takes them together.
int64_t num_steps(const std::vector<Picture>& pictures, int64_t batch_size);

/// The latents of a picture, [1, ...] in fp32, of each stream of its model.
using Latents = pipeline::Values;

/// Draws the pictures in their order, neighbours of one size, length, guidance and strengths in a batch: the latents of each. The denoiser
/// is loaded for it, once for all strengths of what is merged into it, or drawn with as the loader's caller holds it: adapters, averaged
/// weights and dropout are the caller's to set. Nothing records
/// gradients. `goes_on` is asked before each step with the number of those done; when it says no, what comes back are the latents of the
/// batches that were finished. `pause` is given what is finished so far, between batches and with the denoiser dropped unless the caller
/// holds it: when drawing has gone on for ten seconds, and for ten times as long as loading takes.
std::vector<Latents> draw(loras::Loader& loader, const Encoded& encoded, const std::vector<Picture>& pictures, const Noise& noise,
                          const DrawOptions& options, const std::function<bool(int64_t num_done)>& goes_on = {},
                          const std::function<void(const std::vector<Latents>& finished)>& pause = {});

/// A result of decoding: a picture [3, H, W] in [-1, 1], or a clip of more frames than one, uint8 [3, F, H, W], and what is heard beside
/// it.
struct Decoded {
  at::Tensor image;
  data::Sound sound = {};  ///< of pictures and of models whose clips are silent none
};
/// Decodes latents, those from `first` on, one by one and hands each to `take`, on the CPU.
void decode(loras::Loader& loader, const std::vector<Latents>& latents,
            const std::function<void(int64_t index, const Decoded& decoded)>& take, int64_t first = 0);

}  // namespace burnish::drawing
