#include "kernels/quantize_rows/cpu.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu_rows.h"
#include "kernels/place.h"
#include "kernels/rotate/rotate.h"

namespace burnish::kernels {

namespace {

constexpr float kLeastOfInt8 = 1e-12f, kLargestInt8 = 127.0f;

/// The largest magnitude, as whole numbers are compared: so NaN is larger than any number.
BURNISH_SIMD float magnitude_of_row(const float* x, int64_t n) {
  uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    bits &= 0x7FFFFFFFu;
    most = bits > most ? bits : most;
  }
  float value;
  __builtin_memcpy(&value, &most, sizeof(value));
  return value;
}

BURNISH_SIMD void apply_gain(const float* x, const float* gain, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * gain[i];
}

BURNISH_SIMD void to_int8(const float* x, float scale, int8_t* codes, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float shifted = x[i] / scale + 12582912.0f;  // 1.5 · 2^23: the sum's low bits hold the rounded integer
    uint32_t bits;
    __builtin_memcpy(&bits, &shifted, sizeof(bits));
    codes[i] = static_cast<int8_t>(bits & 0xFFu);
  }
}

template <class T>
void quantize_int8(const at::Tensor& x, const float* gain, int64_t rotation, int8_t* codes, float* scales) {
  const int64_t n = x.size(1), stride = x.stride(0);
  const T* from = x.const_data_ptr<T>();
  at::parallel_for(0, x.size(0), kRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(static_cast<size_t>(n));
    for (int64_t row = begin; row < end; ++row) {
      const float* values = as_fp32(from + row * stride, buffer.data(), n);
      if (gain != nullptr) {
        apply_gain(values, gain, buffer.data(), n);
        values = buffer.data();
      }
      if (rotation > 0) {
        if (values != buffer.data()) std::copy_n(values, n, buffer.data());
        rotate_row(buffer.data(), n, rotation);
        values = buffer.data();
      }
      const float most = magnitude_of_row(values, n);
      scales[row] = (most < kLeastOfInt8 ? kLeastOfInt8 : most) / kLargestInt8;
      to_int8(values, scales[row], codes + row * n, n);
    }
  });
}

}  // namespace

bool int8_rows_fit_cpu(const at::Tensor& x_NI) {
  return runs_on_cpu(x_NI) && (x_NI.scalar_type() == at::kFloat || x_NI.scalar_type() == at::kBFloat16) && x_NI.stride(1) == 1;
}

void int8_rows_cpu(const at::Tensor& x_NI, const at::Tensor& gain_I, int64_t rotation, const at::Tensor& codes_NI,
                   const at::Tensor& scales_N1) {
  if (x_NI.is_meta()) return;
  const auto gain = gain_I.defined() ? gain_I.contiguous() : gain_I;
  const float* factors = gain.defined() ? gain.const_data_ptr<float>() : nullptr;
  auto* codes = codes_NI.mutable_data_ptr<int8_t>();
  auto* scales = scales_N1.mutable_data_ptr<float>();
  if (x_NI.scalar_type() == at::kFloat) quantize_int8<float>(x_NI, factors, rotation, codes, scales);
  else quantize_int8<c10::BFloat16>(x_NI, factors, rotation, codes, scales);
}

}  // namespace burnish::kernels
