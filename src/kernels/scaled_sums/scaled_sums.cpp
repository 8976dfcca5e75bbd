#include "kernels/scaled_sums/scaled_sums.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/util/BFloat16.h>

#include <array>

#include "kernels/cpu_rows.h"
#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kSumsBlock = 1024;

/// `columns`, `bias` and `before` may be null.
BURNISH_SIMD void scale_row(const int32_t* sums, float scale, const float* columns, const float* bias, const float* before, float* y,
                            int64_t n) {
  if (columns != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (before ? before[i] : 0.0f) + static_cast<float>(sums[i]) * scale * columns[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (before ? before[i] : 0.0f) + static_cast<float>(sums[i]) * scale;
  }
  if (bias == nullptr) return;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += bias[i];
}

template <class T>
void scale_rows(const at::Tensor& y_NO, const at::Tensor& sums_NO, const Scales& scales, bool adds) {
  if (y_NO.is_meta()) return;
  const auto bias = scales.bias_O.defined() ? scales.bias_O.to(at::kFloat).contiguous() : at::Tensor();
  const auto columns = scales.columns_1O.defined() ? scales.columns_1O.contiguous() : at::Tensor();
  const int64_t n = y_NO.size(1), stride = y_NO.stride(0);
  const auto* sums = sums_NO.const_data_ptr<int32_t>();
  const auto* of_rows = scales.rows_N1.const_data_ptr<float>();
  const int64_t row_stride = scales.rows_N1.stride(0);
  T* to = y_NO.mutable_data_ptr<T>();
  at::parallel_for(0, y_NO.size(0), kRowsPerTask, [&](int64_t begin, int64_t end) {
    std::array<float, kChunk> buffer;
    for (int64_t row = begin; row < end; ++row) {
      for_chunks(n, [&](int64_t first, int64_t count) {
        auto part = [&](const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() + first : nullptr; };
        T* place = to + row * stride + first;
        float* values = target(place, buffer.data());
        const float* before = adds ? as_fp32(place, buffer.data(), count) : nullptr;
        scale_row(sums + row * n + first, of_rows[row * row_stride], part(columns), part(bias), before, values, count);
        store_row(values, place, count);
      });
    }
  });
}

const Binary* kernel_for(const at::Tensor& y_NO, const Scales& scales, bool adds) {
  const auto dtype = kernel_dtype(y_NO.scalar_type());
  if (runs_on_cpu(y_NO) || dtype.empty() || y_NO.numel() == 0 || y_NO.stride(1) != 1) return nullptr;
  return find_kernel(kernel_name("scaled_sums.scaled", dtype, {scales.columns_1O.defined(), scales.bias_O.defined(), adds, kSumsBlock}),
                     y_NO.device());
}

void scale_anywhere(const at::Tensor& y_NO, const at::Tensor& sums_NO, const Scales& scales, bool adds) {
  auto values = sums_NO.to(at::kFloat).mul_(scales.rows_N1);
  if (scales.columns_1O.defined()) values.mul_(scales.columns_1O);
  if (scales.bias_O.defined()) values.add_(scales.bias_O);
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
