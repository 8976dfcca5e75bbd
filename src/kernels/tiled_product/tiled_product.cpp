#include "kernels/tiled_product/tiled_product.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/bf16_pairs.h"
#include "kernels/cpu_rows.h"
#include "kernels/cpu_tasks.h"
#include "kernels/place.h"
#include "kernels/unpack/few_rows.h"

namespace burnish::kernels {

namespace {

using Bf16 = c10::BFloat16;

/// A tile of the weight: columns of the result (twice as many where fewer would cut what is unpacked together), and numbers that are
/// summed. Its pairs and the rows of x that are multiplied at a time are in the second cache together.
constexpr int64_t kColumns = 128, kMostColumns = 256, kSummed = 1024, kRowsAtOnce = 128;
/// Between rows of a tile of numbers, so that a column of them does not lie in a few lines of the first cache.
constexpr int64_t kGap = 32;
/// Rows of one task, whose sums (1 MB) wait while a tile after the other is added to them, and the fewest that are worth a tile.
constexpr int64_t kMostRows = 2048, kFewestRows = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The right factor of a product [numbers that are summed, columns]: the weight, or its transpose.
struct Factor {
  const CodedMatrix& weight;
  bool is_transposed;
};

struct TileMemory {
  Bf16* numbers;
  uint32_t* pairs;
  float* sums;

  TileMemory(Pieces& from, int64_t rows, int64_t columns)
      : numbers(from.take<Bf16>(columns * (kSummed + kGap) + kSummed * kGap)),
        pairs(from.take<uint32_t>(columns * kSummed / 2)),
        sums(from.take<float>(columns * rows)) {}
};

void pair_tile(const Factor& factor, Stretch summed, Stretch columns, const TileMemory& m) {
  const auto rows = factor.is_transposed ? columns : summed, in = factor.is_transposed ? summed : columns;
  const int64_t stride = in.count + kGap;
  unpack_tile(factor.weight, rows, in, m.numbers, stride);
  const Bf16Rows tile{m.numbers, stride, rows.count, in.count};
  if (factor.is_transposed) pair_columns(tile, rows.count, m.pairs);
  else pair_rows(tile, rows.count, m.pairs);
}

/// Holds what becomes of sums: y [M, N] = sums + bias, or += it.
struct Result {
  const at::Tensor& y;
  const float* bias;  ///< of each column; null: none
  bool adds;
};

void store(const Result& to, Stretch rows, Stretch columns, float* sums) {
  std::array<float, kMostColumns> buffer;
  for (int64_t r = 0; r < rows.count; ++r) {
    auto* values = sums + r * columns.count;
    auto* row = to.y.mutable_data_ptr<Bf16>() + (rows.first + r) * to.y.stride(0) + columns.first;
    if (to.bias != nullptr) add_values(to.bias + columns.first, values, columns.count);
    if (to.adds) add_values(as_fp32(row, buffer.data(), columns.count), values, columns.count);
    store_row(values, row, columns.count);
  }
}

void multiply_block(const at::Tensor& x, const Factor& factor, Stretch rows, Stretch columns, const TileMemory& m) {
  const auto* first = x.const_data_ptr<Bf16>() + rows.first * x.stride(0);
  for (int64_t k = 0; k < x.size(1); k += kSummed) {
    const Stretch summed{k, std::min(kSummed, x.size(1) - k)};
    pair_tile(factor, summed, columns, m);
    for (int64_t r = 0; r < rows.count; r += kRowsAtOnce) {
      const Bf16Rows part{first + r * x.stride(0) + k, x.stride(0), std::min(kRowsAtOnce, rows.count - r), summed.count};
      multiply_paired(part, m.pairs, columns.count, k > 0, m.sums + r * columns.count);
    }
  }
}

/// Returns how many neighbours of a row a tile may begin and end at multiples of.
int64_t unit_of(const CodedMatrix& weight) {
  const int64_t group = weight.scales.size(1) > 1 ? weight.group : 1;
  return std::lcm(std::lcm(group, std::max<int64_t>(1, weight.rotation)), code_block(weight.kind).numbers);
}

int64_t columns_of_tile(const Factor& factor) {
  return factor.is_transposed || kColumns % unit_of(factor.weight) == 0 ? kColumns : kMostColumns;
}

/// Rows of a task: all that there is room for, or fewer, so that threads have the same number of tasks. Those who share columns unpack the
/// same tiles.
int64_t rows_of_task(int64_t num_rows, int64_t tiles) {
  const int64_t threads = at::get_num_threads();
  int64_t parts = ceil_div(num_rows, kMostRows);
  while (tiles * parts % threads != 0 && tiles * parts < 8 * threads && num_rows / (parts + 1) >= kFewestRows) ++parts;
  return ceil_div(ceil_div(num_rows, parts), kRowsAtOnce) * kRowsAtOnce;
}

void multiply(const Result& to, const at::Tensor& x, const Factor& factor) {
  RECORD_FUNCTION("burnish::product", std::vector<c10::IValue>({x, to.y}));
  const int64_t num_rows = to.y.size(0), num_columns = to.y.size(1), columns_each = columns_of_tile(factor);
  const int64_t tiles = ceil_div(num_columns, columns_each), rows_each = rows_of_task(num_rows, tiles);
  Pieces measured(nullptr);
  static_cast<void>(TileMemory(measured, rows_each, columns_each));
  for_tasks(tiles * ceil_div(num_rows, rows_each), measured.taken(), x, [&](int64_t task, std::byte* start) {
    Pieces own(start);
    const TileMemory memory(own, rows_each, columns_each);
    const int64_t row = task / tiles * rows_each, column = task % tiles * columns_each;
    const Stretch rows{row, std::min(rows_each, num_rows - row)}, columns{column, std::min(columns_each, num_columns - column)};
    multiply_block(x, factor, rows, columns, memory);
    store(to, rows, columns, memory.sums);
  });
}

/// Rows whose numbers lie side by side.
at::Tensor with_rows(const at::Tensor& x) { return x.stride(1) == 1 ? x : x.contiguous(); }

}  // namespace

bool multiplies_tiles(const at::Tensor& x, const CodedMatrix& weight) {
  if (!multiplies_pairs(x) || x.numel() <= kFewRows * x.size(-1)) return false;
  if (weight.in % 2 != 0 || weight.codes.size(0) % 2 != 0 || !weight.codes.is_contiguous()) return false;
  return kMostColumns % unit_of(weight) == 0;
}

void multiply_tiles_(const at::Tensor& y, const at::Tensor& x, const CodedMatrix& weight, const at::Tensor& bias, bool adds) {
  const auto bias_fp32 = bias.defined() ? bias.to(at::kFloat).contiguous() : at::Tensor();
  const auto* first = bias.defined() && !bias.is_meta() ? bias_fp32.const_data_ptr<float>() : nullptr;
  multiply({y, first, adds}, with_rows(x), {weight, /*is_transposed=*/true});
}

void multiply_tiles_transposed_(const at::Tensor& dx, const at::Tensor& dy, const CodedMatrix& weight, bool adds) {
  multiply({dx, nullptr, adds}, with_rows(dy), {weight, /*is_transposed=*/false});
}

}  // namespace burnish::kernels
