#include "kernels/attention/cpu_tiles.h"

#include <algorithm>

#include "base/simd.h"
#include "kernels/bf16_pairs.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_rows.h"

namespace burnish::kernels {

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
