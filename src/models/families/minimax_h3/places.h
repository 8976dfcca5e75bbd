#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "models/families/minimax_h3/config.h"

namespace burnish::models::minimax_h3 {

/// The numbers of tokens of each kind in a sequence, in their order: a text, sound, frames.
struct Layout {
  int64_t num_text = 0;
  int64_t num_sound = 0;  ///< latents of sound on each of two sides, all of the left before those of the right; 0: there is none
  int64_t num_frames = 1, rows = 0, columns = 0;  ///< latents of frames, of which a token has two by two

  int64_t num_sound_tokens() const { return 2 * num_sound; }
  int64_t num_frame_tokens() const { return num_frames * (rows / 2) * (columns / 2); }
};

/// Returns the places in time of latents of frames, fp64, counted from the first. A unit is a fortieth of a second, of which a frame lasts
/// five thirds; of every five latents the first stands for one frame, the others for four.
at::Tensor times_of_frames(int64_t num_frames, const at::TensorOptions& options);

/// Computes rotary tables {cos, sin} in fp32 for the tokens of a sequence, [L, R], or [B, L, R] where the samples of a batch have texts of
/// their own lengths: what is no text follows its own sample's. `mask_BT` is 1 on the tokens of a text. Rows and columns span 32 units of
/// a square, whatever its size; sound stands at the first and last column (diffusers: before_denoise.py of modular_pipelines/minimax_h3).
std::pair<at::Tensor, at::Tensor> rotary_tables_of(const Config& config, const Layout& layout, const at::Tensor& mask_BT,
                                                   const at::TensorOptions& options);

}  // namespace burnish::models::minimax_h3
