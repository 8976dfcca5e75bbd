#include "models/text/resample.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/round.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/scaling_order.h"

namespace burnish::models::text {

namespace {

/// A weight of one.
constexpr double kOne = 1 << 22;

double bilinear(double x) { return std::max(0.0, 1 - std::abs(x)); }

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }
double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

double weight_at(double x, Filter filter) {
  return filter == Filter::bilinear ? bilinear(x) : filter == Filter::bicubic ? bicubic(x) : lanczos(x);
}

/// Row o: what each of `in` pixels counts in pixel o of `out`, as shares, or as whole numbers.
at::Tensor weights_of(int64_t in, int64_t out, Filter filter, bool is_whole) {
  auto weights_OI = at::zeros({out, in}, at::TensorOptions().dtype(at::kDouble));
  auto* rows = weights_OI.mutable_data_ptr<double>();
  auto scale = static_cast<double>(in) / static_cast<double>(out), stretch = std::max(scale, 1.0);
  auto reach = static_cast<double>(filter) * stretch;
  for (int64_t o = 0; o < out; ++o) {
    auto centre = (static_cast<double>(o) + 0.5) * scale;
    auto first = std::max(static_cast<int64_t>(centre - reach + 0.5), int64_t{0});
    auto end = std::min(static_cast<int64_t>(centre + reach + 0.5), in);
    std::vector<double> window;
    double sum = 0;
    for (auto i = first; i < end; ++i) {
      auto x = (static_cast<double>(i) - centre + 0.5) / stretch;
      window.push_back(weight_at(x, filter));
      sum += window.back();
    }
    for (auto i = first; i < end; ++i) {
      const auto share = window[static_cast<size_t>(i - first)] / sum, weight = share * kOne;
      rows[o * in + i] = is_whole ? std::trunc(weight < 0 ? weight - 0.5 : weight + 0.5) : share;
    }
  }
  return weights_OI;
}

/// The last dimension scaled.
at::Tensor scaled(const at::Tensor& levels, int64_t size, Filter filter) {
  if (levels.size(-1) == size) return levels;
  auto weights_OI = weights_of(levels.size(-1), size, filter, /*is_whole=*/true).to(levels.device());
  return at::floor((at::matmul(levels, weights_OI.t()) + kOne / 2) / kOne).clamp(0, 255);
}

}  // namespace

at::Tensor resampled(const at::Tensor& levels_3HW, int64_t height, int64_t width, Filter filter) {
  const auto rows = [&](const at::Tensor& x) { return scaled(x.transpose(1, 2), height, filter).transpose(1, 2); };
  const auto columns = [&](const at::Tensor& x) { return scaled(x, width, filter); };
  const bool rows_first = scales_rows_first(levels_3HW.size(1), levels_3HW.size(2), height, width);
  return (rows_first ? columns(rows(levels_3HW)) : rows(columns(levels_3HW))).contiguous();
}

at::Tensor resampled_finely(const at::Tensor& levels_3HW, int64_t height, int64_t width, Filter filter) {
  const auto of = [&](int64_t in, int64_t out) { return weights_of(in, out, filter, /*is_whole=*/false).to(levels_3HW.device()); };
  const auto columns = at::matmul(levels_3HW, of(levels_3HW.size(2), width).t());
  return at::matmul(of(levels_3HW.size(1), height), columns);
}

at::Tensor to_levels(const at::Tensor& image_3HW) { return ((image_3HW.to(at::kDouble) + 1) * 127.5).round().clamp(0, 255); }

at::Tensor from_levels(const at::Tensor& levels_3HW) { return (levels_3HW / 127.5 - 1).to(at::kFloat); }

}  // namespace burnish::models::text
