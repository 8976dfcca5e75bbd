#pragma once
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/simd.h"

// Rows of tensors as fp32, for the tuned CPU operators.
namespace burnish::kernels {

/// Rows that one task takes; sums over rows are formed task by task, so they do not depend on the number of threads.
constexpr int64_t kRowsPerTask = 16;

/// The bits of a value as bf16: to nearest, ties to even; NaN stays NaN.
inline uint16_t bf16_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16, nan = 0x7FC0u;
  return static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/// Values that are widened, computed and rounded while they are in the first cache.
constexpr int64_t kChunk = 2048;

/// Calls task(first, count) for chunks of n values, one after the other.
template <class Task>
void for_chunks(int64_t n, const Task& task) {
  for (int64_t first = 0; first < n; first += kChunk) task(first, std::min(kChunk, n - first));
}

/// The row as fp32: itself, or converted into `buffer` of n values.
inline const float* as_fp32(const float* row, float* /*buffer*/, int64_t /*n*/) { return row; }
const float* as_fp32(const c10::BFloat16* row, float* buffer, int64_t n);

/// Returns the place where a row is computed that store_row puts into `row`.
inline float* target(float* row, float* /*buffer*/) { return row; }
inline float* target(c10::BFloat16* /*row*/, float* buffer) { return buffer; }
inline void store_row(const float* /*values*/, float* /*row*/, int64_t /*n*/) {}
void store_row(const float* values, c10::BFloat16* row, int64_t n);

/// y += x.
void add_values(const float* x, float* y, int64_t n);

}  // namespace burnish::kernels
