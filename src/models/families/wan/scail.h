#pragma once
#include <utility>

#include "models/families/wan/config.h"
#include "nn/linear.h"

// SCAIL-2's transformer (arXiv 2606.10804; formulas are those of zai-org/SCAIL-2: wan/modules/model_scail2.py) reads reference pictures as
// frames of tokens in front of the clip's, and a clip that drives, of half its sides, as tokens behind them. Colours say which person of
// the one is which of the other. Shape letters as in blocks.h; C channels of latents, M of areas of one colour, R pictures, f frames of
// latents.
namespace burnish::models::wan {

/// Channels of areas: seven colours of each of the four frames that a frame of the latents stands for.
inline constexpr int64_t kColours = 7;

/// Holds what is read beside the noisy latents [B, C, f, h, w].
struct Cast {
  at::Tensor pictures_BCRHW, picture_areas_BMRHW;  ///< of reference pictures, h by w; the main one is the last
  at::Tensor driving_BCFHW, driving_areas_BMFHW;   ///< of the clip that drives, h / 2 by w / 2
  at::Tensor replaces_B1;  ///< 1 where the picture's person stands in for that of the driving clip; alike in a batch
};

/// Makes tokens of it, and tells their places. Names of parameters are those of the published files.
class Scail : public nn::Module {
 public:
  Scail(const Config& dit, const at::TensorOptions& options);

  /// Makes tokens [B, L, D] of pictures, noisy latents and driving clip, in this order. `patch_in` is the convolution of the noisy latents,
  /// which reads four channels more: 1 where latents have no noise.
  at::Tensor tokens(const Cast& cast, const at::Tensor& noisy_BCFHW, const nn::Conv& patch_in, at::ScalarType dtype) const;
  /// Returns the rotary tables [L, P] of these tokens, cosines and sines, for noisy latents of h by w. Those of the driving clip are means
  /// of four places each, as the model was trained.
  static std::pair<at::Tensor, at::Tensor> tables(const Config& dit, const Cast& cast, int64_t rows, int64_t columns);

 private:
  nn::Conv driving_in_, areas_in_;
};

/// Returns the areas of a clip of masks [B, 3, F, H, W] in [-1, 1], each pixel of which is black or one of seven colours: the share of each
/// colour in the pixels of a latent, [B, 28, f, H / 8, W / 8] in fp32. White is the first, then red, green, blue, yellow, magenta and cyan;
/// the first frame stands for four.
at::Tensor coloured_areas(const at::Tensor& masks_BCFHW);
/// Returns a clip [B, 3, F, H, W] of half its sides: means of four pixels.
at::Tensor of_half_size(const at::Tensor& clip_BCFHW);

}  // namespace burnish::models::wan
