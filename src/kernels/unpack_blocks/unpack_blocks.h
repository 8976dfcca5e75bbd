#pragma once
#include <ATen/core/Tensor.h>

#include "base/codes.h"

namespace burnish::kernels {

/// Computes the numbers that blocks of GGUF files stand for, without autograd: codes [n, bytes of a row] uint8 -> [n, in] fp32, on any
/// device. What is computed, and in which order, is as in ggml's gguf-py (gguf/quants.py), so that numbers are equal to its.
at::Tensor unpack_blocks(const at::Tensor& codes, CodeKind kind, int64_t in);

}  // namespace burnish::kernels
