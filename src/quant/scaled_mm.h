#pragma once
#include "kernels/quantize_blocks/quantize_blocks.h"

namespace burnish::quant {

/// Tells whether the device multiplies FP8 by FP8 numbers in hardware, for matrices whose sides are multiples of 16.
bool has_fp8_products(c10::Device device);
/// Tells whether the device multiplies MXFP8 by MXFP8 and NVFP4 by NVFP4 numbers in hardware, for matrices whose sides are multiples of 32.
bool has_block_products(c10::Device device);
/// Tells whether the device is a GPU that multiplies INT8 numbers in hardware; one that a dry run stands for, where none is at hand, does.
bool has_int8_tensor_cores(c10::Device device);

/// Computes (a ∘ scale_a) (b ∘ scale_b) + bias in bf16 by the hardware: a [M, K] E4M3 row-major, b [K, N] E4M3 column-major, scale_a [M,
/// 1], scale_b [1, N], bias [N] or undefined. `fast_sums`: the hardware's own, of fewer bits than fp32 and faster; as Transformer Engine
/// does, they are for forward alone.
at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b, const at::Tensor& bias,
                     bool fast_sums);

/// Computes a bᵀ + bias in bf16 by the hardware, of rows in codes of mxfp8 or e2m1: a [M, K], b [N, K], bias [N] or undefined.
at::Tensor scaled_mm(const kernels::CodedBlocks& a, const kernels::CodedBlocks& b, const at::Tensor& bias);

}  // namespace burnish::quant
