#include "nn/weight_source.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace burnish::nn {

int64_t tile_rows(int64_t in_features, c10::Device device) {
  const int64_t elements = device.is_cpu() ? int64_t{1} << 18 : int64_t{1} << 25;
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, in_features) / 128) * 128;
}

void for_each_tile(int64_t out_features, int64_t in_features, c10::Device device, const std::function<void(int64_t, int64_t)>& fn) {
  const auto step = tile_rows(in_features, device);
  for (int64_t begin = 0; begin < out_features; begin += step) fn(begin, std::min(begin + step, out_features));
}

void for_each_tile(const WeightSource& weight, const std::function<void(int64_t, int64_t)>& fn) {
  for_each_tile(weight.out_features(), weight.in_features(), weight.device(), fn);
}

at::Tensor multiply_rows(const WeightSource& weight, const at::Tensor& x_NI, c10::ScalarType dtype) {
  auto x = x_NI.detach().to(dtype);
  auto y = at::empty({x.size(0), weight.out_features()}, x.options().dtype(at::kFloat));
  for_each_tile(
      weight, [&](int64_t begin, int64_t end) { y.narrow(1, begin, end - begin).copy_(at::mm(x, weight.rows_in(dtype, begin, end).t())); });
  return y;
}

at::Tensor multiply_rows_transposed(const WeightSource& weight, const at::Tensor& dy_NO, c10::ScalarType dtype) {
  auto dy = dy_NO.detach().to(dtype);
  auto dx = at::zeros({dy.size(0), weight.in_features()}, dy.options().dtype(at::kFloat));
  for_each_tile(weight,
                [&](int64_t begin, int64_t end) { dx.add_(at::mm(dy.narrow(1, begin, end - begin), weight.rows_in(dtype, begin, end))); });
  return dx;
}

}  // namespace burnish::nn
