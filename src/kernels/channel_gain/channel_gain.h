#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// (x − fixed) · gain + fixed with autograd for x and gain, multiplied in fp32. x [..., C], gain [C] fp32, fixed [C] or undefined for 0
/// -> [..., C] in x's dtype. Saves its result, which the next operator usually saves as well; x is recovered from it by division.
at::Tensor channel_gain(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& fixed);

/// x · gain with autograd for both. Saves x, for when that is saved elsewhere anyway.
at::Tensor input_gain(const at::Tensor& x, const at::Tensor& gain);

}  // namespace burnish::kernels
