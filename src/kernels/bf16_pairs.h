#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <cstdint>

// Products of bf16 tiles on CPUs, and operands in the order in which they read them.
//
// The right factor of such a product has two rows side by side: number (k, n) of a matrix [K, N] lies at [k / 2][n][k % 2]. Two numbers are
// a word of 32 bits here; odd rows end with a row of zeros.
namespace burnish::kernels {

/// A matrix of bf16 whose rows lie `stride` numbers apart.
struct Bf16Rows {
  const c10::BFloat16* first;
  int64_t stride, rows, columns;
};

/// Tells whether operators multiply tiles of x by themselves: bf16 on a CPU that has instructions for it, but for CPUs that multiply
/// matrices (AMX), whose products are ATen's.
bool multiplies_pairs(const at::Tensor& x);

/// Pairs rows: [R, C] -> words [R / 2][C], those behind the last row up to `padded` rows zero.
void pair_rows(const Bf16Rows& x, int64_t padded, uint32_t* words);
/// Pairs the rows of the transpose: [R, C] -> words [C / 2][padded], C even, columns behind R zero.
void pair_columns(const Bf16Rows& x, int64_t padded, uint32_t* words);
/// Transposes: [R, C] -> [C][R], R made even by a zero. `words` holds a pair of rows for each two.
void transpose(const Bf16Rows& x, uint32_t* words, c10::BFloat16* to);

/// sums [M, N] = left [M, K] right [K, N], or += : of paired rows. Who has called it calls release_products before its thread goes on.
void multiply_paired(const Bf16Rows& left, const uint32_t* right, int64_t columns, bool adds, float* sums);
void release_products();

/// The side of squares that are transposed while they are in registers and the first cache.
inline constexpr int64_t kSquareSide = 16;

}  // namespace burnish::kernels
