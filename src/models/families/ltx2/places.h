#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "models/families/ltx2/config.h"

// Places of tokens: of frames in seconds and pixels, of sound in seconds, both by one clock (formulas of diffusers:
// LTX2AudioVideoRotaryPosEmbed). Shape letters: B batch, or 1 where all samples have one frame rate, L tokens, P pairs that turn, of all
// heads.
namespace burnish::models::ltx2 {

/// Latents of sound in a second.
inline constexpr int64_t kSoundLatentsASecond = 25;
/// Pixels of a latent along a side, and frames of a latent, of which the first stands for one.
inline constexpr int64_t kPixelsALatent = 32, kFramesALatent = 8;

/// The latents of a clip.
struct Grid {
  int64_t num_frames = 1, rows = 1, columns = 1;
  int64_t num_tokens() const { return num_frames * rows * columns; }
};

/// Returns the middles of the tokens of frames [B, 3, L], fp32: in seconds, and down and across in pixels. `rate_B` are frames a second.
at::Tensor places_of_frames(const Grid& grid, const at::Tensor& rate_B);
/// Returns the middles of the tokens of a clip beside it that is as many times smaller as `scale` says, and spans as much.
at::Tensor places_of_reference(const Grid& grid, const at::Tensor& rate_B, int64_t scale);
/// Returns the middles of the tokens of frames beside a clip, of which the first has that number there (diffusers:
/// pipeline_ltx2_condition.py).
at::Tensor places_of_given(const Grid& grid, const at::Tensor& rate_B, int64_t number);
/// Returns the middles of latents of sound [1, 1, L], fp32, in seconds.
at::Tensor places_of_sound(int64_t num_latents, const at::TensorOptions& options);

/// A rotary table: cosines and sines [B, L, P] in fp32.
struct Turns {
  at::Tensor cos, sin;
};
/// Computes the turns of places [B, axes, L] for heads that are together `width` wide: 1 or 3 axes, of which the first is of time. From
/// the lowest frequency to the highest the axes take turns; what their number does not divide stands still, in front.
Turns turns_of(const at::Tensor& places, int64_t width, const PlaceSizes& sizes);

}  // namespace burnish::models::ltx2
