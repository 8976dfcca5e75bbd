#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// y = x Wᵀ + b with autograd. x [..., in], W [out, in], b [out] or undefined -> [..., out] in x's dtype.
/// On a CPU without bf16 instructions, bf16 operands are multiplied as fp32 (oneDNN's emulation is 3-4 times slower).
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// The gradient of `linear` by x, without autograd: dy W. dy [N, out], W [out, in] -> [N, in].
at::Tensor linear_back(const at::Tensor& dy_NO, const at::Tensor& weight_OI);

/// Tells whether addmm_, which adds to what is there, multiplies such operands in no more time than `linear` or `linear_back`.
bool adds_in_place(const at::Tensor& x, const at::Tensor& weight);

/// The dtype that operands like `x` are multiplied in on their device: their own, or fp32 for 16-bit numbers on a CPU that lacks them.
c10::ScalarType product_dtype(const at::Tensor& x);

}  // namespace burnish::kernels
