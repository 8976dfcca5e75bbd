#pragma once
#include <ATen/core/Tensor.h>

#include "base/codes.h"

namespace burnish::kernels {

/// Rows as MXFP8 (E4M3, a power of two for each 32 neighbours) or NVFP4 (E2M1, an E4M3 scale for each 16 neighbours and one for all), in
/// the layout that products of such codes read: groups of a row have scales of a byte, in blocks of 128 rows by 4 that zeros fill up.
struct CodedBlocks {
  at::Tensor codes_NI;  ///< uint8 [N, I], or [N, I / 2] with the first of two numbers in the high half
  at::Tensor scales;    ///< E8M0 or E4M3, [ceil(N / 128) · 128, ceil(groups / 4) · 4]
  at::Tensor whole;     ///< fp32 [], of E2M1: what all scales are multiplied by
};

/// Computes x [N, I] of any floating dtype in codes of mxfp8 or e2m1, rounded to nearest, ties to even, without autograd; I is a multiple
/// of the kind's group. A power of two is the least that leaves no number beyond 448 (comfy-kitchen's choice; the floor of the OCP's
/// Microscaling Formats 1.0 cuts the largest numbers off). NVFP4's scale for all makes the largest of the groups' 448. While a SharedRows
/// of x lives they are made once.
CodedBlocks quantize_blocks(const at::Tensor& x_NI, CodeKind kind);

/// The scales of so many rows and groups in fp32, [rows, groups], as kernels::unpack takes them.
at::Tensor scales_of(const CodedBlocks& coded, int64_t rows, int64_t groups);

/// Scales [rows, groups] as products read them: blocks of 128 rows by 4, which zeros fill up (cuBLAS, "1D block scaling factors layout").
at::Tensor laid_out(const at::Tensor& scales);
/// The first rows and groups of scales that lie so; the inverse of laid_out. Any shape of as many scales of a byte.
at::Tensor in_rows(const at::Tensor& laid_out, int64_t rows, int64_t groups);

/// 2^(e - 127) of exponents of a byte (E8M0), by its bits.
at::Tensor powers_of_two(const at::Tensor& exponents);
/// The exponent e of the least power of two 2^(e - 127) that makes `most` (fp32, not negative) 448 at most when divided by it, int32 and
/// below 0 for the smallest numbers. In whole numbers, so that no device rounds it: most = 1.m · 2^n, and 448 = 1.75 · 2^8.
at::Tensor exponents_to_448(const at::Tensor& most);

}  // namespace burnish::kernels
