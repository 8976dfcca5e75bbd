#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// A moment of AdamW as bytes: codes, the scales of blocks of 256 numbers, and the map's 256 values with the 255 halves between them.
struct CodedMoment {
  at::Tensor codes, scales, values, borders;
};

/// The numbers of one update, AdamW as Loshchilov & Hutter 2019 (arXiv 1711.05101) have it.
struct AdamWStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  int64_t step = 1;  ///< counted from 1
};

/// Tells whether adamw_8bit_gpu takes these: flat, aligned and contiguous, fp32 values and gradients of a multiple of 16 numbers on a GPU
/// that there are kernels for.
bool adamw_8bit_fits_gpu(const at::Tensor& value, const at::Tensor& gradient, const CodedMoment& first, const CodedMoment& second);

/// Updates value and both moments in one pass, in fp32.
void adamw_8bit_gpu(const at::Tensor& value, const at::Tensor& gradient, const CodedMoment& first, const CodedMoment& second,
                    const AdamWStep& step);

}  // namespace burnish::kernels
