#pragma once
#include "kernels/product/product.h"

namespace burnish::kernels {

/// base + scale · x (W1 ⊗ W2)ᵀ with autograd; the Kronecker product is never formed. x [..., M·Q], W1 [L, M], W2 [K, Q],
/// base [..., L·K] -> [..., L·K] in base's dtype. Under another product the groups of channels that W1 mixes are multiplied with W2 by it.
at::Tensor add_kronecker(const at::Tensor& base, const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2, double scale,
                         const ProductPtr& product = matrix_product());

}  // namespace burnish::kernels
