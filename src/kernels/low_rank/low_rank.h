#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// base + scale · (x Aᵀ) Bᵀ with autograd. x [..., in], A [rank, in], B [out, rank], base [..., out] -> [..., out] in base's dtype.
/// A and B are fp32 masters; they are multiplied in x's dtype, and their gradients come out in fp32.
at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale);

}  // namespace burnish::kernels
