#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "models/families/minimax_h3/config.h"

namespace burnish::models::minimax_h3 {

/// The numbers of tokens of each kind in a sequence, in their order: a text, pictures that its encoder saw, given frames, sound, frames.
struct Layout {
  int64_t num_text = 0, num_seen = 0;
  std::vector<double> given = {};  ///< the times of given frames, behind the text
  int64_t num_sound = 0;           ///< latents of sound on each of two sides, all of the left before those of the right; 0: there is none
  int64_t num_frames = 1, rows = 0, columns = 0;  ///< latents of frames, of which a token has two by two

  int64_t num_in_frame() const { return (rows / 2) * (columns / 2); }
  int64_t num_given_tokens() const { return static_cast<int64_t>(given.size()) * num_in_frame(); }
  int64_t num_sound_tokens() const { return 2 * num_sound; }
  int64_t num_frame_tokens() const { return num_frames * num_in_frame(); }
};

/// Counts the frames that so many latents stand for: of every five the first stands for one, the others for four.
int64_t frames_of_latents(int64_t num_latents);

/// Returns the places in time of latents of frames, fp64, counted from the first. A unit is a fortieth of a second, of which a frame lasts
/// five thirds; of every five latents the first stands for one frame, the others for four.
at::Tensor times_of_frames(int64_t num_frames, const at::TensorOptions& options);

/// Returns the time of the last frame of so many latents, counted from the first.
double time_of_last(int64_t num_frames);

/// The tokens of texts: `mask_BT` is 1 on those that are there. `places_BL` are the places of these and of seen pictures in the text, where
/// there are any; undefined: one behind the other.
struct TextPlaces {
  at::Tensor mask_BT, places_BL = {};
};

/// Computes rotary tables {cos, sin} in fp32 for the tokens of a sequence, [L, R], or [B, L, R] where the samples of a batch have texts of
/// their own lengths: what is no text follows its own sample's. Rows and columns span 32 units of
/// a square, whatever its size; sound stands at the first and last column (diffusers: before_denoise.py of modular_pipelines/minimax_h3).
std::pair<at::Tensor, at::Tensor> rotary_tables_of(const Config& config, const Layout& layout, const TextPlaces& text,
                                                   const at::TensorOptions& options);

}  // namespace burnish::models::minimax_h3
