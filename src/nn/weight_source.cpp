#include "nn/weight_source.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels/place.h"
namespace burnish::nn {

int64_t tile_rows(int64_t in_features, c10::Device device) {
  const int64_t elements = kernels::runs_on_cpu(device) ? int64_t{1} << 18 : int64_t{1} << 27;
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, in_features) / 128) * 128;
}

void for_each_tile(int64_t out_features, int64_t in_features, c10::Device device, const std::function<void(int64_t, int64_t)>& fn) {
  const auto step = tile_rows(in_features, device);
  for (int64_t begin = 0; begin < out_features; begin += step) fn(begin, std::min(begin + step, out_features));
}

void for_each_tile(const WeightSource& weight, const std::function<void(int64_t, int64_t)>& fn) {
  for_each_tile(weight.out_features(), weight.in_features(), weight.device(), fn);
}

// Columns are multiplied as rows of the left operand, which CPU libraries are faster at, and the results turned round.

at::Tensor times_columns(const WeightSource& weight, const at::Tensor& v_IN, c10::ScalarType dtype) {
  auto v_NI = v_IN.detach().t().to(dtype);
  auto y_NO = at::empty({v_NI.size(0), weight.out_features()}, v_NI.options().dtype(at::kFloat));
  for_each_tile(weight, [&](int64_t begin, int64_t end) {
    y_NO.narrow(1, begin, end - begin).copy_(at::mm(v_NI, weight.rows_in(dtype, begin, end).t()));
  });
  return y_NO.t();
}

at::Tensor transposed_times_columns(const WeightSource& weight, const at::Tensor& u_ON, c10::ScalarType dtype) {
  auto u_NO = u_ON.detach().t().to(dtype);
  auto y_NI = at::zeros({u_NO.size(0), weight.in_features()}, u_NO.options().dtype(at::kFloat));
  for_each_tile(weight, [&](int64_t begin, int64_t end) {
    y_NI.add_(at::mm(u_NO.narrow(1, begin, end - begin), weight.rows_in(dtype, begin, end)));
  });
  return y_NI.t();
}

}  // namespace burnish::nn
