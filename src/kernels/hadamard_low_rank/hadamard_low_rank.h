#pragma once
#include "kernels/product/product.h"

namespace burnish::kernels {

/// base + scale · x Dᵀ with D = (P1 Q1) ∘ (P2 Q2) [out, in] and with autograd; no more than one tile of D's rows exists at a time.
/// x [..., in], P [out, rank], Q [rank, in], base [..., out] -> [..., out] in base's dtype.
at::Tensor add_hadamard_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& p1, const at::Tensor& q1,
                                 const at::Tensor& p2, const at::Tensor& q2, double scale, const ProductPtr& product = matrix_product());

}  // namespace burnish::kernels
