#if defined(__aarch64__) && defined(__linux__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "kernels/int8_product/panels.h"

namespace burnish::kernels {

namespace {

#define BURNISH_DOT __attribute__((target("arch=armv8.2-a+dotprod")))

/// A word of the codes that are there, one every `along`; behind their end are zeros.
inline int32_t word_of(const int8_t* codes, int64_t along, int64_t count) {
  int8_t four[kCodesInWord] = {};
  for (int64_t i = 0; i < std::min(count, kCodesInWord); ++i) four[i] = codes[i * along];
  int32_t word = 0;
  std::memcpy(&word, four, sizeof(word));
  return word;
}

/// Packs rows of codes that lie side by side: word after word, those of `across` rows together, of which `rows` are there.
void pack_rows(const CodesAt& x, int64_t rows, int64_t across, int64_t depth, int64_t words, int32_t* panel) {
  for (int64_t word = 0; word < words; ++word) {
    const int64_t first = kCodesInWord * word;
    for (int64_t r = 0; r < across; ++r)
      panel[word * across + r] = r < rows ? word_of(x.first + r * x.across + first, 1, depth - first) : 0;
  }
}

}  // namespace

// ATen calls NEON its default, too, so what it says of this processor tells nothing.
bool has_int8_panels() {
  const auto* asked = std::getenv("ATEN_CPU_CAPABILITY");
  return (asked == nullptr || std::string_view(asked) != "default") && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

void pack_left(const CodesAt& x, int64_t rows, int64_t depth, int64_t words, int32_t* panels) {
  for (int64_t row = 0; row < kSquare; row += kPanelRows, panels += kPanelRows * words)
    pack_rows({x.first + row * x.across, 1, x.across}, rows - row, kPanelRows, depth, words, panels);
}

void pack_right_rows(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int32_t* panel) {
  pack_rows(x, columns, kPanelColumns, depth, words, panel);
}

void pack_right_columns(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int32_t* panel) {
  for (int64_t word = 0; word < words; ++word, panel += kPanelColumns) {
    const int64_t first = kCodesInWord * word, there = depth - first;
    const auto* codes = x.first + first * x.along;
    if (columns == kPanelColumns && there >= kCodesInWord) {
      const int8x16x4_t rows = {{vld1q_s8(codes), vld1q_s8(codes + x.along), vld1q_s8(codes + 2 * x.along), vld1q_s8(codes + 3 * x.along)}};
      vst4q_s8(reinterpret_cast<int8_t*>(panel), rows);
      continue;
    }
    for (int64_t c = 0; c < kPanelColumns; ++c) panel[c] = c < columns ? word_of(codes + c, x.along, there) : 0;
  }
}

// Four products of codes are added in each lane (`sdot`); sixteen registers of sums leave as many for the factors.
BURNISH_DOT void multiply_panels(const int32_t* left, const int32_t* right, int64_t words, int32_t* sums, int64_t stride, bool adds) {
  constexpr int64_t kLanes = 4;
  int32x4_t all[kPanelRows][kPanelColumns / kLanes];
  for (auto& row : all) {
    for (auto& lanes : row) lanes = vdupq_n_s32(0);
  }
  for (int64_t word = 0; word < words; ++word) {
#pragma GCC unroll 4
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const auto a = vreinterpretq_s8_s32(vdupq_n_s32(left[kPanelRows * word + r]));
#pragma GCC unroll 4
      for (int64_t c = 0; c < kPanelColumns / kLanes; ++c) {
        const auto b = vreinterpretq_s8_s32(vld1q_s32(right + kPanelColumns * word + kLanes * c));
        all[r][c] = vdotq_s32(all[r][c], a, b);
      }
    }
  }
  for (int64_t r = 0; r < kPanelRows; ++r) {
    for (int64_t c = 0; c < kPanelColumns / kLanes; ++c) {
      auto* to = sums + r * stride + kLanes * c;
      vst1q_s32(to, adds ? vaddq_s32(all[r][c], vld1q_s32(to)) : all[r][c]);
    }
  }
}

}  // namespace burnish::kernels
#endif
