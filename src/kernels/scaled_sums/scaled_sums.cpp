#include "kernels/scaled_sums/scaled_sums.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu_rows.h"
#include "kernels/launch.h"
#include "kernels/place.h"
#include "kernels/rotate/rotate.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kSumsBlock = 1024;

/// `columns` and `bias` may be null.
BURNISH_SIMD void scale_row(const int32_t* sums, float scale, const float* columns, const float* bias, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(sums[i]) * scale;
  if (columns != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] *= columns[i];
  }
  if (bias == nullptr) return;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += bias[i];
}

BURNISH_SIMD void add_row(const float* before, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += before[i];
}

void put_row(const float* values, float* row, int64_t n) { std::copy_n(values, n, row); }
void put_row(const float* values, c10::BFloat16* row, int64_t n) { store_row(values, row, n); }

template <class T>
void scale_rows(const at::Tensor& y_NO, const at::Tensor& sums_NO, const Scales& scales, bool adds) {
  if (y_NO.is_meta()) return;
  const auto bias = scales.bias_O.defined() ? scales.bias_O.to(at::kFloat).contiguous() : at::Tensor();
  const auto columns = scales.columns_1O.defined() ? scales.columns_1O.contiguous() : at::Tensor();
  const auto numbers = [](const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; };
  const float *of_columns = numbers(columns), *offsets = numbers(bias), *of_rows = numbers(scales.rows_N1);
  const int64_t n = y_NO.size(1), stride = y_NO.stride(0), row_stride = scales.rows_N1.stride(0);
  const auto* sums = sums_NO.const_data_ptr<int32_t>();
  T* to = y_NO.mutable_data_ptr<T>();
  at::parallel_for(0, y_NO.size(0), kRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(n)), before(static_cast<size_t>(adds ? n : 0));
    for (int64_t row = begin; row < end; ++row) {
      T* place = to + row * stride;
      scale_row(sums + row * n, of_rows[row * row_stride], of_columns, offsets, values.data(), n);
      if (scales.rotation > 0) rotate_row(values.data(), n, scales.rotation);
      if (adds) add_row(as_fp32(place, before.data(), n), values.data(), n);
      put_row(values.data(), place, n);
    }
  });
}

const Binary* kernel_for(const at::Tensor& y_NO, const Scales& scales, bool adds) {
  const auto dtype = kernel_dtype(y_NO.scalar_type());
  if (runs_on_cpu(y_NO) || dtype.empty() || y_NO.numel() == 0 || y_NO.stride(1) != 1) return nullptr;
  if (y_NO.size(1) % 16 != 0 || y_NO.stride(0) % 16 != 0 || !is_aligned(y_NO)) return nullptr;
  return find_kernel(
      kernel_name("scaled_sums.scaled", dtype, {scales.columns_1O.defined(), scales.bias_O.defined(), adds, scales.rotation, kSumsBlock}),
      y_NO.device());
}

void scale_anywhere(const at::Tensor& y_NO, const at::Tensor& sums_NO, const Scales& scales, bool adds) {
  auto values = sums_NO.to(at::kFloat).mul_(scales.rows_N1);
  if (scales.columns_1O.defined()) values.mul_(scales.columns_1O);
  if (scales.bias_O.defined()) values.add_(scales.bias_O);
  if (scales.rotation > 0) rotate_(values, scales.rotation);
  if (adds) y_NO.add_(values);
  else y_NO.copy_(values);
}

}  // namespace

void scale_sums_(const at::Tensor& y_NO, const at::Tensor& sums_NO, const Scales& scales, bool adds) {
  const bool is_tuned = runs_on_cpu(y_NO) && y_NO.stride(1) == 1;
  if (is_tuned && y_NO.scalar_type() == at::kFloat) return scale_rows<float>(y_NO, sums_NO, scales, adds);
  if (is_tuned && y_NO.scalar_type() == at::kBFloat16) return scale_rows<c10::BFloat16>(y_NO, sums_NO, scales, adds);
  const auto* kernel = kernel_for(y_NO, scales, adds);
  if (kernel == nullptr) return scale_anywhere(y_NO, sums_NO, scales, adds);
  const auto optional = [](const at::Tensor& t) { return t.defined() ? contiguous_aligned(t.to(at::kFloat)) : t; };
  launch(*kernel, {y_NO.size(0), (y_NO.size(1) + kSumsBlock - 1) / kSumsBlock, 1},
         {{"y", y_NO},
          {"sums", sums_NO},
          {"rows", scales.rows_N1.contiguous()},
          {"columns", optional(scales.columns_1O)},
          {"bias", optional(scales.bias_O)},
          {"width", y_NO.size(1)},
          {"y_stride", y_NO.stride(0)}});
}

}  // namespace burnish::kernels
