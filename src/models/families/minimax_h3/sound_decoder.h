#pragma once
#include <memory>
#include <vector>

#include "models/families/minimax_h3/sound_config.h"
#include "models/families/minimax_h3/sound_layers.h"

namespace burnish::models::minimax_h3 {

/// Makes samples of what stands for latents of sound, x [B, W, L] -> [B, 1, L · samples_per_latent] in [-1, 1] (BigVGAN).
class SoundDecoder : public nn::Module {
 public:
  SoundDecoder(const SoundConfig& config, const at::TensorOptions& options);
  ~SoundDecoder() override;
  at::Tensor forward(const at::Tensor& x_BWL) const;

 private:
  class Block;
  size_t num_kernels_;
  TimeConv in_;
  std::vector<std::unique_ptr<TimeConv>> steps_;
  std::vector<std::unique_ptr<Block>> blocks_;  ///< of each step as many as there are kernels
  std::unique_ptr<SmoothSnake> last_;
  std::unique_ptr<TimeConv> out_;
};

}  // namespace burnish::models::minimax_h3
