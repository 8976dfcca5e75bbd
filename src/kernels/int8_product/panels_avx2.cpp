#if defined(__x86_64__) && defined(__GNUC__)
#include <ATen/Version.h>
#include <immintrin.h>

#include <algorithm>

#include "kernels/int8_product/panels.h"

namespace burnish::kernels {

namespace {

#define BURNISH_AVX2 __attribute__((target("avx2")))

/// Widens up to 16 adjacent codes of a row: 8 words. Behind its end they are zero.
BURNISH_AVX2 inline __m256i words_of(const int8_t* codes, int64_t count) {
  if (count >= 2 * kSquare) return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  alignas(16) int8_t few[2 * kSquare] = {};
  std::copy_n(codes, std::max<int64_t>(count, 0), few);
  return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(few)));
}

/// Transposes 8 words of 8 rows, of which `rows` are there: column c of them is `to[c]`.
BURNISH_AVX2 inline void transpose_square(const CodesAt& x, int64_t rows, int64_t count, __m256i* to) {
  __m256i row[kSquare], pair[kSquare], four[kSquare];
  for (int64_t r = 0; r < kSquare; ++r) row[r] = r < rows ? words_of(x.first + r * x.across, count) : _mm256_setzero_si256();
  for (int64_t r = 0; r < kSquare; r += 2) {
    pair[r] = _mm256_unpacklo_epi32(row[r], row[r + 1]);
    pair[r + 1] = _mm256_unpackhi_epi32(row[r], row[r + 1]);
  }
  for (int64_t r = 0; r < kSquare; r += 4) {
    four[r] = _mm256_unpacklo_epi64(pair[r], pair[r + 2]);
    four[r + 1] = _mm256_unpackhi_epi64(pair[r], pair[r + 2]);
    four[r + 2] = _mm256_unpacklo_epi64(pair[r + 1], pair[r + 3]);
    four[r + 3] = _mm256_unpackhi_epi64(pair[r + 1], pair[r + 3]);
  }
  for (int64_t c = 0; c < kSquare / 2; ++c) {
    to[c] = _mm256_permute2x128_si256(four[c], four[c + 4], 0x20);
    to[c + 4] = _mm256_permute2x128_si256(four[c], four[c + 4], 0x31);
  }
}

BURNISH_AVX2 inline void put_lanes(int32_t* place, __m256i lanes, bool adds) {
  auto* to = reinterpret_cast<__m256i*>(place);
  _mm256_storeu_si256(to, adds ? _mm256_add_epi32(lanes, _mm256_loadu_si256(to)) : lanes);
}

}  // namespace

bool has_int8_panels() { return at::get_cpu_capability() != "DEFAULT" && __builtin_cpu_supports("avx2"); }

BURNISH_AVX2 void pack_left(const CodesAt& x, int64_t rows, int64_t depth, int64_t words, int32_t* panels) {
  auto* first = reinterpret_cast<__m128i*>(panels);
  for (int64_t word = 0; word < words; word += kSquare) {
    __m256i columns[kSquare];
    transpose_square({x.first + 2 * word, 1, x.across}, rows, depth - 2 * word, columns);
    for (int64_t c = 0; c < std::min(kSquare, words - word); ++c) {
      _mm_store_si128(first + word + c, _mm256_castsi256_si128(columns[c]));
      _mm_store_si128(first + words + word + c, _mm256_extracti128_si256(columns[c], 1));
    }
  }
}

BURNISH_AVX2 void pack_right_rows(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int32_t* panel) {
  auto* to = reinterpret_cast<__m256i*>(panel);
  for (int64_t word = 0; word < words; word += kSquare) {
    for (int64_t half = 0; half < 2; ++half) {
      __m256i rows[kSquare];
      const int64_t first = half * kSquare;
      transpose_square({x.first + 2 * word + first * x.across, 1, x.across}, columns - first, depth - 2 * word, rows);
      for (int64_t r = 0; r < std::min(kSquare, words - word); ++r) _mm256_store_si256(to + 2 * (word + r) + half, rows[r]);
    }
  }
}

BURNISH_AVX2 void pack_right_columns(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int32_t* panel) {
  auto* to = reinterpret_cast<__m256i*>(panel);
  alignas(16) int8_t few[2][kPanelColumns] = {};
  for (int64_t word = 0; word < words; ++word) {
    const auto* even = x.first + 2 * word * x.along;
    const auto* odd = 2 * word + 1 < depth ? even + x.along : nullptr;
    if (columns < kPanelColumns || odd == nullptr) {
      std::copy_n(even, columns, few[0]);
      if (odd != nullptr) std::copy_n(odd, columns, few[1]);
      else std::fill_n(few[1], kPanelColumns, 0);
      even = few[0];
      odd = few[1];
    }
    const auto evens = _mm_loadu_si128(reinterpret_cast<const __m128i*>(even)),
               odds = _mm_loadu_si128(reinterpret_cast<const __m128i*>(odd));
    _mm256_store_si256(to + 2 * word, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(evens, odds)));
    _mm256_store_si256(to + 2 * word + 1, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(evens, odds)));
  }
}

// Eight registers of sums are as many as stay in registers.
BURNISH_AVX2 void multiply_panels(const int32_t* left, const int32_t* right, int64_t words, int32_t* sums, int64_t stride, bool adds) {
  const auto* right_words = reinterpret_cast<const __m256i*>(right);
  __m256i low[kPanelRows], high[kPanelRows];
  for (int64_t r = 0; r < kPanelRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int64_t word = 0; word < words; ++word) {
    const auto b_low = _mm256_load_si256(right_words + 2 * word), b_high = _mm256_load_si256(right_words + 2 * word + 1);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const auto a = _mm256_set1_epi32(left[kPanelRows * word + r]);
      low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(a, b_low));
      high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(a, b_high));
    }
  }
  for (int64_t r = 0; r < kPanelRows; ++r) {
    put_lanes(sums + r * stride, low[r], adds);
    put_lanes(sums + r * stride + 8, high[r], adds);
  }
}

}  // namespace burnish::kernels
#endif
