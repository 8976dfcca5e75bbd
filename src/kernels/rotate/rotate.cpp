#include "kernels/rotate/rotate.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

#include "base/simd.h"
#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

// A digit of a number's place to the base 4 at a time: of four numbers with the sum s the i-th becomes s / 2 - x(3 - i).

using Sixteen = float __attribute__((vector_size(64)));

/// The two lowest digits, of 16 numbers that are one vector.
BURNISH_SIMD void rotate_by_16(float* numbers, int64_t n) {
  for (int64_t first = 0; first < n; first += 16) {
    Sixteen x;
    __builtin_memcpy(&x, numbers + first, sizeof(x));
    auto pairs = x + __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    auto sums = pairs + __builtin_shufflevector(pairs, pairs, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    x = 0.5f * sums - __builtin_shufflevector(x, x, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    pairs = x + __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    sums = pairs + __builtin_shufflevector(pairs, pairs, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    x = 0.5f * sums - __builtin_shufflevector(x, x, 12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __builtin_memcpy(numbers + first, &x, sizeof(x));
  }
}

/// The digit that counts `stride` numbers.
BURNISH_SIMD void rotate_digit(float* numbers, int64_t n, int64_t stride) {
  for (int64_t first = 0; first < n; first += 4 * stride) {
    float *a = numbers + first, *b = a + stride, *c = b + stride, *d = c + stride;
#pragma omp simd
    for (int64_t i = 0; i < stride; ++i) {
      const float half = 0.5f * ((a[i] + b[i]) + (c[i] + d[i]));
      const float to_a = half - d[i], to_b = half - c[i], to_c = half - b[i], to_d = half - a[i];
      a[i] = to_a, b[i] = to_b, c[i] = to_c, d[i] = to_d;
    }
  }
}

constexpr int64_t kRotateBlock = 1024;

const Binary* rotate_kernel(const at::Tensor& rows, int64_t group) {
  if (runs_on_cpu(rows) || rows.numel() == 0 || rows.numel() % 16 != 0 || !is_aligned(rows)) return nullptr;
  return find_kernel(kernel_name("rotate.rows", "fp32", {group, kRotateBlock}), rows.device());
}

/// Plain ATen, for devices without a tuned version.
void rotate_anywhere_(const at::Tensor& rows, int64_t group) {
  for (int64_t stride = 1; stride < group; stride *= 4) {
    auto digit = rows.view({-1, 4, stride});
    auto half = digit.narrow(1, 0, 2).sum(1, true).add_(digit.narrow(1, 2, 2).sum(1, true)).mul_(0.5);
    digit.copy_(half.sub(digit.flip(1)));
  }
}

}  // namespace

void rotate_row(float* numbers, int64_t n, int64_t group) {
  if (group >= 16) rotate_by_16(numbers, n);
  for (int64_t stride = group >= 16 ? 16 : 1; stride < group; stride *= 4) rotate_digit(numbers, n, stride);
}

void rotate_(const at::Tensor& rows, int64_t group) {
  if (const auto* kernel = rotate_kernel(rows, group))
    return launch(*kernel, {(rows.numel() + kRotateBlock - 1) / kRotateBlock, 1, 1}, {{"x", rows}, {"count", rows.numel()}});
  if (rows.is_meta()) return;
  if (!runs_on_cpu(rows)) return rotate_anywhere_(rows, group);
  const int64_t in = rows.size(1);
  auto* numbers = rows.mutable_data_ptr<float>();
  at::parallel_for(0, rows.size(0), std::max<int64_t>(1, 32768 / std::max<int64_t>(1, in)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) rotate_row(numbers + row * in, in, group);
  });
}

}  // namespace burnish::kernels
