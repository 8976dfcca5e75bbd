#include "kernels/int8_product/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/int8_product/panels.h"

namespace burnish::kernels {

#ifdef BURNISH_HAS_INT8_PANELS

namespace {

constexpr int64_t kWords = 256;  // along panels: a right one, 16 KB, stays in the first cache, 256 left rows in the second
constexpr int64_t kDepth = kWords * kCodesInWord;

/// Multiplies a panel of the right factor by all panels of the left one.
void multiply_by_panel(const int32_t* left, const int32_t* right, int64_t words, const at::Tensor& sums_MN, int64_t column, bool adds) {
  const int64_t rows = sums_MN.size(0), stride = sums_MN.size(1), columns = std::min(kPanelColumns, stride - column);
  auto* sums = sums_MN.mutable_data_ptr<int32_t>() + column;
  for (int64_t row = 0; row < rows; row += kPanelRows, left += kPanelRows * words) {
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
  static const bool has_them = has_int8_panels();
  return has_them;
}

void int8_sums_cpu_(const at::Tensor& sums_MN, const at::Tensor& a_MK, const at::Tensor& b_KN) {
  RECORD_FUNCTION("burnish::product", std::vector<c10::IValue>({a_MK, sums_MN}));
  const auto a = a_MK.stride(1) == 1 ? a_MK : a_MK.contiguous();
  const auto b = b_KN.stride(0) == 1 || b_KN.stride(1) == 1 ? b_KN : b_KN.contiguous();
  const int64_t rows = sums_MN.size(0), columns = sums_MN.size(1), all = a.size(1);
  const int64_t squares = (rows + kSquare - 1) / kSquare, panels = (columns + kPanelColumns - 1) / kPanelColumns;
  const auto packed = at::empty({squares * kSquare * kWords}, a.options().dtype(at::kInt));
  if (sums_MN.is_meta()) return;
  if (all == 0) sums_MN.zero_();
  auto* left = packed.mutable_data_ptr<int32_t>();
  const auto *from_a = a.const_data_ptr<int8_t>(), *from_b = b.const_data_ptr<int8_t>();
  for (int64_t first = 0; first < all; first += kDepth) {
    const int64_t depth = std::min(kDepth, all - first), words = (depth + kCodesInWord - 1) / kCodesInWord;
    at::parallel_for(0, squares, kSquare, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack_left({from_a + i * kSquare * a.stride(0) + first, 1, a.stride(0)}, rows - i * kSquare, depth, words,
                  left + i * kSquare * words);
    });
    at::parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
      alignas(64) int32_t right[kPanelColumns * kWords];
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
