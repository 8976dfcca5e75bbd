#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// x ← (x − fixed) · gain + fixed in place, with autograd for x and gain, multiplied in fp32. x [..., C], a result that no operator has
/// saved; gain [C] fp32, fixed [C] or undefined for 0; `dim`, counted from the end, tells where C is. Saves its result, which the next
/// operator usually saves as well; the former x is recovered from it by division.
at::Tensor channel_gain_(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& fixed, int64_t dim = -1);

/// x · gain with autograd for both. Saves x, for when that is saved elsewhere anyway.
at::Tensor input_gain(const at::Tensor& x, const at::Tensor& gain, int64_t dim = -1);

}  // namespace burnish::kernels
