#pragma once
#include <memory>
#include <vector>

#include "models/families/ltx2/vocoder_config.h"
#include "nn/linear.h"

// Layers of vocoders, over x [B, C, L].
namespace burnish::models::ltx2 {

/// Makes a convolution over time that gives as many places as it sees.
std::unique_ptr<nn::Conv> time_conv(int64_t in, int64_t out, int64_t kernel, int64_t dilation, const at::TensorOptions& options,
                                    bool with_bias = true);

/// A convolution that makes `step` places of each.
class WideningConv : public nn::Module {
 public:
  WideningConv(int64_t in, int64_t out, int64_t kernel, int64_t step, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  int64_t step_, padding_;
  at::Tensor weight_, bias_;
};

/// x + sin²(exp(α) x) / exp(β), or / exp(α) with one number a channel, at twice the rate, between two low-pass filters that files hold.
class SmoothWave : public nn::Module {
 public:
  SmoothWave(int64_t channels, bool has_two_numbers, int64_t num_taps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor alpha_, beta_;  ///< [C]
  at::Tensor up_, down_;     ///< [1, 1, taps]
};

/// Pairs of convolutions of one kernel, the first of each pair dilated, each behind an activation, added to what they see.
class VocoderBlock : public nn::Module {
 public:
  VocoderBlock(const GeneratorConfig& config, int64_t channels, size_t number, const at::TensorOptions& options);
  at::Tensor forward(at::Tensor x) const;

 private:
  at::Tensor activated(size_t number, const at::Tensor& x) const;
  double slope_;
  std::vector<std::unique_ptr<nn::Conv>> convs_;
  std::vector<std::unique_ptr<SmoothWave>> waves_;  ///< one before each convolution; none where activations are rectifiers
};

/// Raises x to `times` its rate by a sinc of six lobes under a Hann window, rolled off at 0.99 of half of its rate.
at::Tensor raised(const at::Tensor& x, int64_t times);

}  // namespace burnish::models::ltx2
