#include "data/row_scaler.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/scaling_order.h"
#include "base/simd.h"

namespace burnish::data {

namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;  // Pillow's: 8 bits of pixel and 2 of head room in an int32
constexpr size_t kMostChannels = 4;

// The first line of a window begins the sums, the others add to them.

BURNISH_SIMD void begin_weighted(const uint8_t* bytes, int32_t weight, int32_t* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] = bytes[i] * weight;
}

BURNISH_SIMD void add_weighted(const uint8_t* bytes, int32_t weight, int32_t* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += bytes[i] * weight;
}

BURNISH_SIMD void begin_weighted_each(const uint8_t* bytes, const int32_t* weights, int32_t* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] = bytes[i] * weights[i];
}

BURNISH_SIMD void add_weighted_each(const uint8_t* bytes, const int32_t* weights, int32_t* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += bytes[i] * weights[i];
}

BURNISH_SIMD void round_to_bytes(const int32_t* sums, uint8_t* bytes, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    bytes[i] = static_cast<uint8_t>(std::clamp((sums[i] + (1 << (kPrecisionBits - 1))) >> kPrecisionBits, 0, 255));
}

}  // namespace

/// The triangle filter, widened by the scale when shrinking (Pillow: precompute_coeffs).
RowScaler::Side RowScaler::side_of(int64_t in, int64_t out, int64_t first, int64_t count) {
  double scale = static_cast<double>(in) / static_cast<double>(out), filter_scale = std::max(scale, 1.0), support = filter_scale;
  std::vector<std::vector<double>> windows;
  Side side;
  for (int64_t i = first; i < first + count; ++i) {
    double centre = (static_cast<double>(i) + 0.5) * scale;
    auto begin = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5));
    auto end = std::min<int64_t>(in, static_cast<int64_t>(centre + support + 0.5));
    side.first.push_back(begin);
    side.widest = std::max(side.widest, end - begin);
    auto& window = windows.emplace_back();
    for (auto x = begin; x < end; ++x)
      window.push_back(std::max(0.0, 1.0 - std::abs((static_cast<double>(x) - centre + 0.5) * (1.0 / filter_scale))));
  }
  side.weights.assign(static_cast<size_t>(count * side.widest), 0);
  for (size_t i = 0; i < windows.size(); ++i) {
    double total = 0;
    for (auto weight : windows[i]) total += weight;
    // A window at the end starts earlier, with zeros, so that all are equally wide.
    auto start = std::min(side.first[i], in - side.widest), zeros = side.first[i] - start;
    auto* weights = side.weights.data() + static_cast<int64_t>(i) * side.widest + zeros;
    for (auto weight : windows[i]) *weights++ = static_cast<int32_t>(0.5 + weight / total * (1 << kPrecisionBits));
    side.first[i] = start;
  }
  return side;
}

RowScaler::Columns RowScaler::columns_of(const Side& side, int64_t channels, bool flip) {
  auto width = std::ssize(side.first);
  Columns columns{.widest = side.widest, .first_byte = side.first.front() * channels};
  columns.num_bytes = (side.first.back() + side.widest) * channels - columns.first_byte;
  for (int64_t k = 0; k < side.widest; ++k) {
    for (int64_t x = 0; x < width; ++x) {
      auto from = static_cast<size_t>(flip ? width - 1 - x : x);
      columns.offsets.push_back(static_cast<int32_t>((side.first[from] + k) * channels - columns.first_byte));
      auto weight = side.weights[from * static_cast<size_t>(side.widest) + static_cast<size_t>(k)];
      columns.weights.insert(columns.weights.end(), static_cast<size_t>(channels), weight);
    }
  }
  columns.row.resize(static_cast<size_t>(columns.num_bytes) + kMostChannels);
  columns.picked.resize(columns.weights.size() + kMostChannels);
  return columns;
}

RowScaler::RowScaler(Size picture, int64_t channels, Size scaled, const Crop& crop) : channels_(channels) {
  rows_first_ = scales_rows_first(picture.height, picture.width, scaled.height, scaled.width);
  rows_ = side_of(picture.height, scaled.height, crop.top, crop.size.height);
  columns_ = columns_of(side_of(picture.width, scaled.width, crop.left, crop.size.width), channels, crop.flip);
  auto row_bytes = crop.size.width * channels, recent_bytes = rows_first_ ? columns_.num_bytes : row_bytes;
  recent_.resize(static_cast<size_t>(rows_.widest * recent_bytes));
  sums_.resize(static_cast<size_t>(std::max(row_bytes, recent_bytes)));
  scaled_HWC_ = at::empty({crop.size.height, crop.size.width, channels}, at::TensorOptions().dtype(at::kByte));
}

void RowScaler::take(const uint8_t* row_WC) {
  auto y = num_taken_++, height = std::ssize(rows_.first);
  if (num_finished_ == height || y < rows_.first.front()) return;
  auto* place = recent_.data() + y % rows_.widest * (std::ssize(recent_) / rows_.widest);
  std::memcpy(rows_first_ ? place : columns_.row.data(), row_WC + columns_.first_byte, static_cast<size_t>(columns_.num_bytes));
  if (!rows_first_) scale_columns(place);
  while (num_finished_ < height && rows_.first[static_cast<size_t>(num_finished_)] + rows_.widest == num_taken_) finish_row();
}

void RowScaler::scale_columns(uint8_t* to) {
  auto width = scaled_HWC_.size(1), n = width * channels_;
  auto& c = columns_;
  for (int64_t k = 0; k < c.widest; ++k) {
    const auto* offsets = c.offsets.data() + k * width;
    auto* picked = c.picked.data() + k * n;
    // Whole words are moved; what is too much of one is overwritten by the next.
    for (int64_t x = 0; x < width; ++x) std::memcpy(picked + x * channels_, c.row.data() + offsets[x], kMostChannels);
    (k == 0 ? begin_weighted_each : add_weighted_each)(picked, c.weights.data() + k * n, sums_.data(), n);
  }
  round_to_bytes(sums_.data(), to, n);
}

void RowScaler::finish_row() {
  auto n = std::ssize(recent_) / rows_.widest, first = rows_.first[static_cast<size_t>(num_finished_)];
  for (int64_t k = 0; k < rows_.widest; ++k)
    (k == 0 ? begin_weighted : add_weighted)(recent_.data() + (first + k) % rows_.widest * n,
                                             rows_.weights[static_cast<size_t>(num_finished_ * rows_.widest + k)], sums_.data(), n);
  auto* to = scaled_HWC_.mutable_data_ptr<uint8_t>() + num_finished_++ * scaled_HWC_.size(1) * channels_;
  round_to_bytes(sums_.data(), rows_first_ ? columns_.row.data() : to, n);
  if (rows_first_) scale_columns(to);
}

}  // namespace burnish::data
