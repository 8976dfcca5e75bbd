#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "models/families/minimax_h3/config.h"

namespace burnish::models::minimax_h3 {

/// Latents of frames, of which a token has two by two.
struct Grid {
  int64_t num_frames = 1, rows = 0, columns = 0;
  int64_t num_tokens() const { return num_frames * (rows / 2) * (columns / 2); }
};

/// Tokens that are given beside what is predicted: frames, or a sound at the edges of a grid.
struct GivenRun {
  size_t number = 0;      ///< of its latents among those that are given
  double start = 0;       ///< its time, behind the text
  Grid grid;              ///< its own, and of a sound the one of the clip that it is heard with
  int64_t num_sound = 0;  ///< latents of sound on each of two sides; 0: it is frames
  bool is_sound() const { return num_sound > 0; }
  int64_t num_tokens() const { return is_sound() ? 2 * num_sound : grid.num_tokens(); }
};

/// The numbers of tokens of each kind in a sequence, in their order: a text, pictures that its encoder saw, what is given, sound, frames.
struct Layout {
  int64_t num_text = 0, num_seen = 0;
  std::vector<GivenRun> given = {};
  double start = 0;       ///< the time at which sound and frames begin, behind the text
  int64_t num_sound = 0;  ///< latents of sound on each of two sides, all of the left before those of the right; 0: there is none
  Grid grid;

  int64_t num_given_tokens() const;
  int64_t num_sound_tokens() const { return 2 * num_sound; }
};

/// Puts frames that are given of the clip itself into a layout, by the sizes of their latents: its first, and its last where there are two.
void add_given_frames(Layout& layout, const std::vector<at::IntArrayRef>& sizes);
/// Puts references into a layout, by the sizes of their latents: of pictures [B, C, h, w], of clips [B, C, F, h, w] and behind each of its
/// sound, of sounds [B, C, 2 N]. One begins where the one before ended, and sound and frames behind the last: a picture lasts one unit of
/// time, a sound one a latent, a clip as long as the longer of its frames and its sound, which stands before them.
void add_references(Layout& layout, const std::vector<at::IntArrayRef>& sizes);

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
