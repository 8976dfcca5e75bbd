#pragma once
#include <memory>
#include <vector>

#include "kernels/product/product.h"

namespace burnish::kernels {

/// base + scale · (x Aᵀ) Bᵀ with autograd. x [..., in], A [rank, in], B [out, rank], base [..., out] -> [..., out] in base's dtype.
/// Under another product x is multiplied with A by it, and what comes out with B by its pointwise one.
/// A and B are fp32 masters; they are multiplied in x's dtype, and their gradients come out in fp32.
at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                        const ProductPtr& product = matrix_product());

/// A layer that does not train, and what a LoRA adds to it: x W + bias + scale · (x Aᵀ) Bᵀ. `bias` may be undefined, and so may A and B
/// together.
struct FrozenLayer {
  std::shared_ptr<const Multiplier> weight;
  at::Tensor bias, a, b;
  double scale = 1;
};

/// Computes the results of layers that read one x, in their order, with autograd for x, A and B. What is as large as x is read once for all
/// A, forward and backward, and the layers' gradients of x are added up by the products that make them.
std::vector<at::Tensor> frozen_layers(const at::Tensor& x, const std::vector<FrozenLayer>& layers, const ProductPtr& product);

}  // namespace burnish::kernels
