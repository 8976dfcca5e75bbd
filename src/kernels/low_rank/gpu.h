#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

namespace burnish::kernels {

/// Tells whether factor_gradients_gpu takes these: fp32 or bf16 on a GPU that there are kernels for, all of one dtype, dy of many rows and
/// a width that is a multiple of 16, a rank of at most 32, in fp32 16.
bool factor_gradients_fit_gpu(const at::Tensor& dy, const at::Tensor& b, const at::Tensor& h);

/// The gradients of scale · h Bᵀ: dh = scale · dy B in dy's dtype and dB = scale · dyᵀ h in `db_dtype`, in one pass over dy, summed in
/// fp32. dy [..., out], B [out, rank], h [..., rank], whose rows may lie apart -> {dh [..., rank], dB [out, rank]}.
std::pair<at::Tensor, at::Tensor> factor_gradients_gpu(const at::Tensor& dy, const at::Tensor& b, const at::Tensor& h, double scale,
                                                       c10::ScalarType db_dtype);

}  // namespace burnish::kernels
