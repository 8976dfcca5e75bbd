#include "kernels/int8_product/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <stdexcept>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define BURNISH_HAS_INT8_SUMS 1
#endif

namespace burnish::kernels {

#ifdef BURNISH_HAS_INT8_SUMS

// Codes are widened to 16 bits and stand in panels: of four rows of the left factor, of sixteen columns of the right one, two numbers that
// are multiplied with the same two of the other factor side by side, as a word of 32 bits. A product of panels adds words along them.
namespace {

#define BURNISH_AVX2 __attribute__((target("avx2")))

constexpr int64_t kPanelRows = 4, kPanelColumns = 16;
constexpr int64_t kSquare = 8;   // rows, and words of each, that are transposed in registers
constexpr int64_t kDepth = 512;  // numbers along panels: a right one, 16 KB, stays in the first cache, 256 left rows in the second
constexpr int64_t kWords = kDepth / 2;

/// A matrix of codes of which one factor is made: `along` is the step between numbers that are multiplied and added, `across` between sums.
struct CodesAt {
  const int8_t* first;
  int64_t along, across;
};

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

/// Packs 8 rows of the left factor, of which `rows` are there, into two panels of `words` words of a row each.
BURNISH_AVX2 void pack_left(const CodesAt& x, int64_t rows, int64_t depth, int64_t words, int16_t* panels) {
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

/// Packs 16 columns of the right factor whose numbers lie side by side along what is added, of which `columns` are there.
BURNISH_AVX2 void pack_right_rows(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int16_t* panel) {
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

/// Packs 16 columns of the right factor that lie side by side, of which `columns` are there.
BURNISH_AVX2 void pack_right_columns(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int16_t* panel) {
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

BURNISH_AVX2 inline void put_lanes(int32_t* place, __m256i lanes, bool adds) {
  auto* to = reinterpret_cast<__m256i*>(place);
  _mm256_storeu_si256(to, adds ? _mm256_add_epi32(lanes, _mm256_loadu_si256(to)) : lanes);
}

/// sums [4, 16], `stride` apart, = left · right, or += : panels of so many words. Eight registers of sums are as many as stay in registers.
BURNISH_AVX2 void multiply_panels(const int16_t* left, const int16_t* right, int64_t words, int32_t* sums, int64_t stride, bool adds) {
  const auto* left_words = reinterpret_cast<const int32_t*>(left);
  const auto* right_words = reinterpret_cast<const __m256i*>(right);
  __m256i low[kPanelRows], high[kPanelRows];
  for (int64_t r = 0; r < kPanelRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int64_t word = 0; word < words; ++word) {
    const auto b_low = _mm256_load_si256(right_words + 2 * word), b_high = _mm256_load_si256(right_words + 2 * word + 1);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const auto a = _mm256_set1_epi32(left_words[kPanelRows * word + r]);
      low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(a, b_low));
      high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(a, b_high));
    }
  }
  for (int64_t r = 0; r < kPanelRows; ++r) {
    put_lanes(sums + r * stride, low[r], adds);
    put_lanes(sums + r * stride + 8, high[r], adds);
  }
}

/// Multiplies a panel of the right factor by all panels of the left one.
void multiply_by_panel(const int16_t* left, const int16_t* right, int64_t words, const at::Tensor& sums_MN, int64_t column, bool adds) {
  const int64_t rows = sums_MN.size(0), stride = sums_MN.size(1), columns = std::min(kPanelColumns, stride - column);
  auto* sums = sums_MN.mutable_data_ptr<int32_t>() + column;
  for (int64_t row = 0; row < rows; row += kPanelRows, left += 2 * kPanelRows * words) {
    if (row + kPanelRows <= rows && columns == kPanelColumns) {
      multiply_panels(left, right, words, sums + row * stride, stride, adds);
      continue;
    }
    int32_t whole[kPanelRows * kPanelColumns];
    multiply_panels(left, right, words, whole, kPanelColumns, false);
    for (int64_t r = row; r < std::min(rows, row + kPanelRows); ++r) {
      for (int64_t c = 0; c < columns; ++c) sums[r * stride + c] = whole[(r - row) * kPanelColumns + c] + (adds ? sums[r * stride + c] : 0);
    }
  }
}

}  // namespace

bool has_int8_sums_cpu() {
  static const bool has_them = at::get_cpu_capability() != "DEFAULT" && __builtin_cpu_supports("avx2");
  return has_them;
}

void int8_sums_cpu_(const at::Tensor& sums_MN, const at::Tensor& a_MK, const at::Tensor& b_KN) {
  RECORD_FUNCTION("burnish::product", std::vector<c10::IValue>({a_MK, sums_MN}));
  const auto a = a_MK.stride(1) == 1 ? a_MK : a_MK.contiguous();
  const auto b = b_KN.stride(0) == 1 || b_KN.stride(1) == 1 ? b_KN : b_KN.contiguous();
  const int64_t rows = sums_MN.size(0), columns = sums_MN.size(1), all = a.size(1);
  const int64_t squares = (rows + kSquare - 1) / kSquare, panels = (columns + kPanelColumns - 1) / kPanelColumns;
  const auto packed = at::empty({squares * kSquare * kDepth}, a.options().dtype(at::kShort));
  if (sums_MN.is_meta()) return;
  if (all == 0) sums_MN.zero_();
  auto* left = packed.mutable_data_ptr<int16_t>();
  const auto *from_a = a.const_data_ptr<int8_t>(), *from_b = b.const_data_ptr<int8_t>();
  for (int64_t first = 0; first < all; first += kDepth) {
    const int64_t depth = std::min(kDepth, all - first), words = (depth + 1) / 2;
    at::parallel_for(0, squares, kSquare, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack_left({from_a + i * kSquare * a.stride(0) + first, 1, a.stride(0)}, rows - i * kSquare, depth, words,
                  left + 2 * i * kSquare * words);
    });
    at::parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
      alignas(64) int16_t right[2 * kPanelColumns * kWords];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i * kPanelColumns;
        const CodesAt x{from_b + first * b.stride(0) + column * b.stride(1), b.stride(0), b.stride(1)};
        (x.along == 1 ? pack_right_rows : pack_right_columns)(x, std::min(kPanelColumns, columns - column), depth, words, right);
        multiply_by_panel(left, right, words, sums_MN, column, first > 0);
      }
    });
  }
}

#else

bool has_int8_sums_cpu() { return false; }
void int8_sums_cpu_(const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  throw std::logic_error("sums of INT8 products on a processor without them");
}

#endif

}  // namespace burnish::kernels
