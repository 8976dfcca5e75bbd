#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/channel_gain/cpu.h"

namespace burnish::kernels {

/// Tells whether the functions below take x: contiguous fp32 or bf16 on a GPU that there are kernels for, with an fp32 gain over its last
/// dimension, a multiple of 16.
bool channel_gain_fits_gpu(const at::Tensor& x, const at::Tensor& gain_C);

/// Computes what scale_channels_cpu does.
void scale_channels_gpu(const at::Tensor& x, const at::Tensor& gain_C, const at::Tensor& offset_C, const at::Tensor& y);

/// Computes what channel_gradients_cpu does; takes dy and y of any alignment.
ChannelGradients channel_gradients_gpu(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& gain_C);

}  // namespace burnish::kernels
