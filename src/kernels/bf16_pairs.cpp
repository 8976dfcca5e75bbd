#include "kernels/bf16_pairs.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <cstring>

#include "base/simd.h"
#include "kernels/linear/linear.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

// oneDNN reads paired rows on x86 alone.
#if defined(__x86_64__)
constexpr bool kReadsPairs = true;
#else
constexpr bool kReadsPairs = false;
#endif

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

bool multiplies_pairs(const at::Tensor& x) {
  return kReadsPairs && runs_on_cpu(x) && x.scalar_type() == at::kBFloat16 && product_dtype(x) == at::kBFloat16 &&
         !at::native::cpublas::could_pack(at::kBFloat16);
}

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

void multiply_paired(const Bf16Rows& left, const uint32_t* right, int64_t columns, bool adds, float* sums) {
  at::native::cpublas::brgemm(left.rows, columns, left.columns, left.stride, columns, columns, adds, left.first,
                              reinterpret_cast<const c10::BFloat16*>(right), sums);
}

void release_products() { at::native::cpublas::brgemm_release(); }

}  // namespace burnish::kernels
