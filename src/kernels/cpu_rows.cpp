#include "kernels/cpu_rows.h"

namespace burnish::kernels {

namespace {

BURNISH_SIMD void widen(const uint16_t* in, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits = static_cast<uint32_t>(in[i]) << 16;
    __builtin_memcpy(out + i, &bits, sizeof(bits));
  }
}

BURNISH_SIMD void narrow(const float* in, uint16_t* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = bf16_bits(in[i]);
}

}  // namespace

const float* as_fp32(const c10::BFloat16* row, float* buffer, int64_t n) {
  widen(reinterpret_cast<const uint16_t*>(row), buffer, n);
  return buffer;
}

void store_row(const float* values, c10::BFloat16* row, int64_t n) { narrow(values, reinterpret_cast<uint16_t*>(row), n); }

BURNISH_SIMD void add_values(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

}  // namespace burnish::kernels
