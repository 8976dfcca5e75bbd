#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

// Inside of attention on CPUs: tiles of operands in the order in which bf16 products read them, and the rows between two products.
//
// The right factor of such a product has two rows side by side: number (k, n) of a matrix [K, N] lies at [k / 2][n][k % 2]. Two numbers are
// a word of 32 bits here; odd rows end with a row of zeros.
namespace burnish::kernels {

/// A matrix of bf16 whose rows lie `stride` numbers apart.
struct Bf16Rows {
  const c10::BFloat16* first;
  int64_t stride, rows, columns;
};

/// Pairs rows: [R, C] -> words [R / 2][C], those behind the last row up to `padded` rows zero.
void pair_rows(const Bf16Rows& x, int64_t padded, uint32_t* words);
/// Pairs the rows of the transpose: [R, C] -> words [C / 2][padded], C even, columns behind R zero.
void pair_columns(const Bf16Rows& x, int64_t padded, uint32_t* words);
/// Transposes: [R, C] -> [C][R], R made even by a zero. `words` holds a pair of rows for each two.
void transpose(const Bf16Rows& x, uint32_t* words, c10::BFloat16* to);

/// Rounds two rows of n values and pairs them.
void pair_values(const float* even, const float* odd, uint32_t* words, int64_t n);

/// most = max(most, scale · x + shift).
void raise_to(const float* x, float scale, float shift, float* most, int64_t n);
/// x = e^(scale · x + shift - base), 0 where that is less than e^-87.
void exponentials(float* x, float scale, float shift, const float* base, int64_t n);
/// y += x.
void add_values(const float* x, float* y, int64_t n);
/// y = y · x.
void multiply_values(const float* x, float* y, int64_t n);
/// dp = p · (dp - delta): the gradient of a softmax's operand.
void softmax_gradient(const float* p, const float* delta, float* dp, int64_t n);
/// Σ x y.
float dot(const float* x, const float* y, int64_t n);
struct Bf16Size {
  int64_t stride, rows, columns;
};
/// Writes a matrix [columns][from_stride] of fp32 transposed, row r times factor[r], as bf16 rows.
void store_transposed(const float* from, int64_t from_stride, const float* factor, c10::BFloat16* to, const Bf16Size& size);

}  // namespace burnish::kernels
