#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether the functions below take x: contiguous fp32 or bf16 on the CPU, with an fp32 gain over its last dimension.
bool channel_gain_fits_cpu(const at::Tensor& x, const at::Tensor& gain_C);

/// y ← x · gain (+ offset, which may be undefined), in fp32 and rounded once to x's dtype; one pass. y is as x, or x itself.
void scale_channels_cpu(const at::Tensor& x, const at::Tensor& gain_C, const at::Tensor& offset_C, const at::Tensor& y);

/// Gradients by one pass over dy and y (of one dtype): dy · gain, and per channel the sums of dy · y and of dy.
struct ChannelGradients {
  at::Tensor dx, dot_C, sum_C;
};
ChannelGradients channel_gradients_cpu(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& gain_C);

}  // namespace burnish::kernels
