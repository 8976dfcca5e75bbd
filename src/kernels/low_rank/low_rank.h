#pragma once
#include "kernels/product/product.h"

namespace burnish::kernels {

/// base + scale · (x Aᵀ) Bᵀ with autograd. x [..., in], A [rank, in], B [out, rank], base [..., out] -> [..., out] in base's dtype.
/// Under another product x is multiplied with A by it, and what comes out with B by its pointwise one.
/// A and B are fp32 masters; they are multiplied in x's dtype, and their gradients come out in fp32.
at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                        const ProductPtr& product = matrix_product());

/// x W + bias + scale · (x Aᵀ) Bᵀ with autograd for x, A and B, of a W and a bias that do not train; otherwise as add_low_rank. What is as
/// large as x or the result is written once and added to in place, forward and backward.
at::Tensor low_rank_linear(std::shared_ptr<const Multiplier> weight, const at::Tensor& bias, const at::Tensor& x, const at::Tensor& a,
                           const at::Tensor& b, double scale, const ProductPtr& product);

}  // namespace burnish::kernels
