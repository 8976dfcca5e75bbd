#include "kernels/attention/cpu_tiles.h"

#include <algorithm>
#include <cstring>

#include "base/simd.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_rows.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kSquareSide = 16;  // of squares that are transposed while they are in registers and the first cache

uint32_t word_at(const c10::BFloat16* pair) {
  uint32_t word;
  std::memcpy(&word, pair, sizeof(word));
  return word;
}

BURNISH_SIMD void pair_bits(const uint16_t* even, const uint16_t* odd, uint32_t* words, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) words[i] = even[i] | static_cast<uint32_t>(odd[i]) << 16;
}

/// to[c][r] = the word of row r at c.
void transpose_words(const c10::BFloat16* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to, int64_t to_stride) {
  for (int64_t r0 = 0; r0 < rows; r0 += kSquareSide) {
    const int64_t r1 = std::min(rows, r0 + kSquareSide);
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = r0; r < r1; ++r) to[c * to_stride + r] = word_at(from + r * from_stride + 2 * c);
    }
  }
}

}  // namespace

void pair_rows(const Bf16Rows& x, int64_t padded, uint32_t* words) {
  for (int64_t r = 0; r + 1 < x.rows; r += 2, words += x.columns) {
    const auto* even = reinterpret_cast<const uint16_t*>(x.first + r * x.stride);
    pair_bits(even, even + x.stride, words, x.columns);
  }
  if (x.rows % 2 != 0) {
    const auto* last = reinterpret_cast<const uint16_t*>(x.first + (x.rows - 1) * x.stride);
    std::copy_n(last, x.columns, words);
    words += x.columns;
  }
  std::fill_n(words, (padded / 2 - (x.rows + 1) / 2) * x.columns, 0);
}

void pair_columns(const Bf16Rows& x, int64_t padded, uint32_t* words) {
  transpose_words(x.first, x.stride, x.rows, x.columns / 2, words, padded);
  for (int64_t c = 0; c < x.columns / 2; ++c) std::fill_n(words + c * padded + x.rows, padded - x.rows, 0);
}

void transpose(const Bf16Rows& x, uint32_t* words, c10::BFloat16* to) {
  const int64_t pairs = (x.rows + 1) / 2;
  pair_rows(x, 2 * pairs, words);
  transpose_words(reinterpret_cast<const c10::BFloat16*>(words), 2 * x.columns, pairs, x.columns, reinterpret_cast<uint32_t*>(to), pairs);
}

BURNISH_SIMD void pair_values(const float* even, const float* odd, uint32_t* words, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) words[i] = bf16_bits(even[i]) | static_cast<uint32_t>(bf16_bits(odd[i])) << 16;
}

BURNISH_SIMD void raise_to(const float* x, float scale, float shift, float* most, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float value = x[i] * scale + shift;
    most[i] = value > most[i] ? value : most[i];
  }
}

BURNISH_SIMD void exponentials(float* x, float scale, float shift, const float* base, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i] * scale + shift - base[i];
    const float power = exp_fp32(v < -87.0f ? -87.0f : v);
    x[i] = v < -87.0f ? 0.0f : power;
  }
}

BURNISH_SIMD void add_values(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

BURNISH_SIMD void multiply_values(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= x[i];
}

BURNISH_SIMD void softmax_gradient(const float* p, const float* delta, float* dp, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dp[i] = p[i] * (dp[i] - delta[i]);
}

BURNISH_SIMD float dot(const float* x, const float* y, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

void store_transposed(const float* from, int64_t from_stride, const float* factor, c10::BFloat16* to, const Bf16Size& size) {
  for (int64_t r0 = 0; r0 < size.rows; r0 += kSquareSide) {
    const int64_t r1 = std::min(size.rows, r0 + kSquareSide);
    for (int64_t c = 0; c < size.columns; ++c) {
      for (int64_t r = r0; r < r1; ++r) to[r * size.stride + c].x = bf16_bits(from[c * from_stride + r] * factor[r]);
    }
  }
}

}  // namespace burnish::kernels
