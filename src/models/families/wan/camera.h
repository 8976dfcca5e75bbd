#pragma once
#include <string>

#include "nn/linear.h"

// Cameras of Wan's Fun models (VideoX-Fun's Control-Camera; the rays are those of CameraCtrl, arXiv 2404.02101): how a camera moves, the
// ray of each pixel, and what the transformer makes of them. Shape letters: B batch, F frames of the clip, f of the latents, H, W pixels,
// h, w tokens, D width.
namespace burnish::models::wan {

/// Channels of a frame of the latents: six numbers of a ray, for each of the four frames of the clip that it stands for.
inline constexpr int64_t kRayChannels = 24;
/// Pixels along a side of a latent, and frames of the clip that it stands for.
inline constexpr int64_t kSide = 8, kFramesPerLatent = 4;

/// Returns how far a camera turns to the side and upwards and goes forwards from one frame to the next, [1, 3] fp32, of a direction "Left",
/// "Right", "Up", "Down", "In" and "Out" and what two of them make ("LeftUp"), and of a tensor with one number, how fast. Throws a data
/// Error for another word.
at::Tensor camera_movement(const std::string& direction, const at::Tensor& speed);

/// Computes the rays of all pixels, [B, 24, f, H, W] in fp32, f being 1 + (F - 1) / 4: Plücker coordinates (moment, direction) of a camera
/// whose first frame looks straight on. The first frame of the clip stands for four.
at::Tensor camera_rays(const at::Tensor& movement_B3, int64_t frames, int64_t height, int64_t width);

/// Makes of rays what is added to the tokens: squares of 8 pixels as channels, a convolution, a residual block.
class CameraAdapter : public nn::Module {
 public:
  CameraAdapter(int64_t width, const at::TensorOptions& options);
  /// [B, 24, f, H, W] -> [B, D, f, h, w].
  at::Tensor forward(const at::Tensor& rays_BCFHW) const;

 private:
  nn::Conv2d in_, first_, second_;
};

}  // namespace burnish::models::wan
