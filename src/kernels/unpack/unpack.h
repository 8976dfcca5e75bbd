#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <array>

#include "base/codes.h"

namespace burnish::kernels {

/// Computes value · scale for every code, without autograd. codes [n, bytes] uint8: one code a byte, or two of four bits (the first in the
/// high half), or blocks of GGUF files, which have their scales in them; scales [n, groups] fp32, each for `group` neighbouring values of
/// its row -> [n, in] in `dtype` (fp32, fp64, bf16 or fp16). Where `rotation` is not 0, so many neighbours of a row are rotated back.
at::Tensor unpack(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype,
                  int64_t rotation = 0);

/// A row of a weight on a CPU: its codes, and scales of so many neighbours. Of kinds whose scales lie in their blocks there are none.
struct CodedRow {
  CodeKind kind;
  const uint8_t* codes;
  const float* scales;
  int64_t group;
};
/// Writes values first to first + n of a row, without rotation; `first` is even.
void unpack_part(const CodedRow& row, int64_t first, int64_t n, float* values);

/// A weight [rows, in] in codes and scales, as `unpack` takes them.
struct CodedMatrix {
  at::Tensor codes;
  CodeKind kind;
  at::Tensor scales;  ///< of rows that may share storage
  int64_t group, in, rotation;
};
/// Neighbours of a row, or rows.
struct Stretch {
  int64_t first, count;
};
/// Writes a tile of a weight as bf16 rows that lie `stride` numbers apart, on a CPU. The tile begins between groups, blocks and numbers
/// that are rotated together, whose sizes divide 1024.
void unpack_tile(const CodedMatrix& weight, Stretch rows, Stretch columns, c10::BFloat16* to, int64_t stride);

/// The 16 values of NF4, ascending from -1 to 1 (Dettmers et al. 2023, arXiv 2305.14314, appendix E).
const std::array<float, 16>& nf4_values();
/// The 16 values of a kind of four bits, by their codes: NF4, FP4 as bitsandbytes has it, and E2M1 (sign, two bits of exponent, one of
/// mantissa: OCP Microscaling Formats 1.0), and INT4 in two's complement.
const std::array<float, 16>& values_of(CodeKind kind);

}  // namespace burnish::kernels
