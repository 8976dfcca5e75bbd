#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

// Inside of attention on CPUs: the rows between two products of tiles (kernels/bf16_pairs.h).
namespace burnish::kernels {

/// Rounds two rows of n values and pairs them.
void pair_values(const float* even, const float* odd, uint32_t* words, int64_t n);

/// most = max(most, scale · x + shift).
void raise_to(const float* x, float scale, float shift, float* most, int64_t n);
/// x = e^(scale · x + shift - base), 0 where that is less than e^-87.
void exponentials(float* x, float scale, float shift, const float* base, int64_t n);
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
