#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/unpack/unpack.h"

namespace burnish::kernels {

/// Tells whether rows of x, or of a gradient, are multiplied with a weight [out, in] in codes tile by tile: of more rows than
/// `multiply_few` takes, where kernels/bf16_pairs multiplies them, with sides that are even, and groups and rotations within a tile.
bool multiplies_tiles(const at::Tensor& x, const CodedMatrix& weight);

/// Computes y = x Wᵀ + bias, or with `adds` y += it. y [M, out] and x [M, in] of bf16, rows apart as they may be; bias [out] or undefined.
/// A tile of the weight is unpacked into a thread's own memory, in the order in which the product reads it, and multiplied by all rows, so
/// that no number of the weight leaves the cache. Sums are fp32 in one order, whatever rows and threads there are, and rounded once.
void multiply_tiles_(const at::Tensor& y, const at::Tensor& x, const CodedMatrix& weight, const at::Tensor& bias, bool adds);

/// Computes dx = dy W, or with `adds` dx += it: dx [M, in], dy [M, out].
void multiply_tiles_transposed_(const at::Tensor& dx, const at::Tensor& dy, const CodedMatrix& weight, bool adds);

}  // namespace burnish::kernels
