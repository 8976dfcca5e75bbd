#pragma once
#include "nn/module.h"

// Layers of the autoencoder of sound, over x [B, C, L].
namespace burnish::models::minimax_h3 {

/// The way of a convolution along time.
struct TimeSteps {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool widens = false;  ///< whether it makes `stride` places of each
  bool has_bias = true;
  bool is_normed = true;  ///< whether its weight is held as a length for each first channel, and a direction (weight norm)
};

/// A convolution over time.
class TimeConv : public nn::Module {
 public:
  TimeConv(int64_t in, int64_t out, const TimeSteps& steps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCL) const;

 private:
  TimeSteps steps_;
  at::Tensor weight_, length_, direction_, bias_;
};

/// x + sin²(α x) / α, α being a number for each channel (Ziyin et al. 2020, arXiv 2006.08195).
class Snake : public nn::Module {
 public:
  Snake(int64_t channels, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCL) const;

 private:
  at::Tensor alpha_;  ///< [1, C, 1]
};

/// x + sin²(exp(α) x) / exp(β), computed at twice the rate, between two low-pass filters.
class SmoothSnake : public nn::Module {
 public:
  SmoothSnake(int64_t channels, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCL) const;

 private:
  at::Tensor alpha_, beta_;  ///< [C]
};

/// Returns the filter [12] between one rate and twice that: a sinc under a window of Kaiser, of sum 1, fp32 (BigVGAN, alias-free-torch).
at::Tensor filter_of_twice(const at::TensorOptions& options);

}  // namespace burnish::models::minimax_h3
