#include "nn/weight_source.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace burnish::nn {

int64_t tile_rows(const WeightSource& weight) {
  const int64_t elements = weight.device().is_cpu() ? int64_t{1} << 20 : int64_t{1} << 25;
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, weight.in_features()) / 128) * 128;
}

namespace {

void for_each_range(int64_t total, int64_t step, const std::function<void(int64_t, int64_t)>& fn) {
  for (int64_t begin = 0; begin < total; begin += step) fn(begin, std::min(begin + step, total));
}

/// A product with a few rows is as fast with small tiles, and they leave smaller holes in the heap between what a step keeps.
void for_each_small_tile(const WeightSource& weight, const std::function<void(int64_t, int64_t)>& fn) {
  for_each_range(weight.out_features(), std::max<int64_t>(64, tile_rows(weight) / 4), fn);
}

}  // namespace

void for_each_tile(const WeightSource& weight, const std::function<void(int64_t, int64_t)>& fn) {
  for_each_range(weight.out_features(), tile_rows(weight), fn);
}

at::Tensor multiply_fp32(const WeightSource& weight, const at::Tensor& x_NI) {
  auto x = x_NI.detach().to(at::kFloat);
  auto y = at::empty({x.size(0), weight.out_features()}, x.options());
  for_each_small_tile(weight, [&](int64_t begin, int64_t end) {
    auto part = y.narrow(1, begin, end - begin);
    part.copy_(at::mm(x, weight.rows(begin, end).t()));
  });
  return y;
}

at::Tensor multiply_transposed_fp32(const WeightSource& weight, const at::Tensor& dy_NO) {
  auto dy = dy_NO.detach().to(at::kFloat);
  auto dx = at::zeros({dy.size(0), weight.in_features()}, dy.options());
  for_each_small_tile(weight, [&](int64_t begin, int64_t end) { dx.addmm_(dy.narrow(1, begin, end - begin), weight.rows(begin, end)); });
  return dx;
}

}  // namespace burnish::nn
