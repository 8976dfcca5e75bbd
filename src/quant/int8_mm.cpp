#include "quant/int8_mm.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>

#include <algorithm>

#include "base/times_as_long.h"
#include "kernels/int8_product/cpu.h"
#include "kernels/int8_product/int8_product.h"
#include "kernels/place.h"
#include "kernels/transpose_codes/transpose_codes.h"
#include "quant/format.h"
#include "quant/scaled_mm.h"

namespace burnish::quant {

namespace {

constexpr int64_t kRowsOfGpu = 32;  // of which cuBLASLt wants a multiple

/// Tells whether this machine's sums of INT8 products are exact, found by the largest that there are: without VNNI or AMX, oneDNN adds
/// pairs of products in 16 bits, which such numbers overflow.
bool sums_are_exact_on_cpu() {
  static const bool exact = [] {
    if (!at::hasMKLDNN()) return false;
    constexpr int64_t kSide = 64, kLargest = 127;
    auto ones = at::full({kSide, kSide}, kLargest, at::kChar);
    return at::_int_mm(ones, ones.t()).eq(kSide * kLargest * kLargest).all().item<bool>() &&
           at::_int_mm(ones, -ones).eq(-kSide * kLargest * kLargest).all().item<bool>();
  }();
  return exact;
}

/// Tells whether ATen multiplies INT8 numbers here about as fast as fp32, or faster. Where oneDNN has no product of them ATen takes three
/// loops, which are exact and take fifty times as long as fp32: far from the limit, so that every run decides alike.
bool products_are_fast_on_cpu() {
  static const bool fast = [] {
    constexpr int64_t kRows = 64, kSide = 256;
    constexpr int kTrials = 3;
    constexpr double kMostOfFp32 = 5;
    const auto codes = at::full({kSide, kSide}, 3, at::kChar), numbers = at::full({kSide, kSide}, 3, at::kFloat);
    return times_as_long([&] { at::_int_mm(codes.narrow(0, 0, kRows), codes.t()); },
                         [&] { at::matmul(numbers.narrow(0, 0, kRows), numbers.t()); }, kTrials) <= kMostOfFp32;
  }();
  return fast;
}

/// Says whose products a CPU has: oneDNN's by ATen where these are exact and fast, or our own.
enum class CpuSums { none, of_aten, of_own };
CpuSums cpu_sums() {
  if (sums_are_exact_on_cpu() && products_are_fast_on_cpu()) return CpuSums::of_aten;
  return kernels::has_int8_sums_cpu() ? CpuSums::of_own : CpuSums::none;
}

/// Sides of a tile of sums. A CPU's, 2.5 MB at most, has its share of the rows: oneDNN packs the weight anew for each, and our own products
/// have their left factor in the second cache. A GPU's, 64 MB at most, has enough rows to keep it busy. Neighbours that are rotated
/// together lie in one.
struct Tile {
  int64_t rows, columns;
};
Tile tile_of(c10::Device device, int64_t rows, int64_t columns, int64_t rotation) {
  if (kernels::runs_on_cpu(device)) {
    const int64_t most_rows = cpu_sums() == CpuSums::of_own ? 256 : 640;
    constexpr int64_t kColumns = 1024;
    return {ceil_div(rows, ceil_div(rows, most_rows)), std::min(columns, std::max(kColumns, rotation))};
  }
  return {std::max<int64_t>(1024, (int64_t{1} << 24) / columns / 32 * 32), columns};
}

void cpu_sums_(at::Tensor& sums_MN, const at::Tensor& a_MK, const at::Tensor& b_KN) {
  if (cpu_sums() == CpuSums::of_own) kernels::int8_sums_cpu_(sums_MN, a_MK, b_KN);
  else at::_int_mm_out(sums_MN, a_MK, b_KN);
}

}  // namespace

bool has_int8_products(c10::Device device) {
  return kernels::runs_on_cpu(device) ? cpu_sums() != CpuSums::none : has_int8_tensor_cores(device);
}

bool rotated_products_are_faster(c10::Device device) { return kernels::runs_on_cpu(device) && cpu_sums() == CpuSums::of_aten; }

bool has_int8_products(c10::Device device, int64_t out, int64_t in) {
  return has_int8_products(device) && (kernels::runs_on_cpu(device) || (out % 8 == 0 && in % 8 == 0));
}

void int8_mm_(const at::Tensor& y_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, const kernels::Scales& scales, bool adds) {
  const bool on_cpu = kernels::runs_on_cpu(y_MN);
  const int64_t num_rows = y_MN.size(0), num_columns = y_MN.size(1);
  const auto tile = tile_of(y_MN.device(), num_rows, num_columns, scales.rotation);
  const auto padded = [&](int64_t rows) { return on_cpu ? rows : (rows + kRowsOfGpu - 1) / kRowsOfGpu * kRowsOfGpu; };
  // A GPU's product wants its right factor contiguous along what is summed.
  const auto b = on_cpu || b_KN.stride(0) == 1 ? b_KN : kernels::transpose_codes(b_KN).t();
  const bool has_kernel = kernels::int8_product_fits_gpu(a_MK, b.t());
  if (has_kernel && kernels::scales_int8_product_gpu(y_MN, scales)) return kernels::int8_product_gpu_(y_MN, a_MK, b.t(), scales, adds);
  const auto buffer = at::empty({std::min(tile.rows, padded(num_rows)) * tile.columns}, b.options().dtype(at::kInt));
  for (int64_t row = 0; row < num_rows; row += tile.rows) {
    const int64_t rows = std::min(tile.rows, num_rows - row);
    auto left = a_MK.narrow(0, row, rows);
    if (!has_kernel && padded(rows) > rows) left = at::constant_pad_nd(left, {0, 0, 0, padded(rows) - rows});
    for (int64_t column = 0; column < num_columns; column += tile.columns) {
      const int64_t columns = std::min(tile.columns, num_columns - column);
      auto sums = buffer.narrow(0, 0, left.size(0) * columns).view({left.size(0), columns});
      if (has_kernel) kernels::int8_sums_gpu_(sums, left, b.t());
      else if (on_cpu) cpu_sums_(sums, left, b.narrow(1, column, columns));
      else at::_int_mm_out(sums, left, b.narrow(1, column, columns));
      auto part = [&](const at::Tensor& t, int64_t dim) { return t.defined() ? t.narrow(dim, column, columns) : t; };
      const kernels::Scales of_tile{scales.rows_N1.narrow(0, row, rows), part(scales.columns_1O, 1), part(scales.bias_O, 0),
                                    scales.rotation};
      kernels::scale_sums_(y_MN.narrow(0, row, rows).narrow(1, column, columns), sums.narrow(0, 0, rows), of_tile, adds);
    }
  }
}

}  // namespace burnish::quant
