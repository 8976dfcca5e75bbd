#include "kernels/channel_gain/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu_rows.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

BURNISH_SIMD void scale_row(const float* x, const float* gain, const float* offset, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * gain[i] + offset[i];
}

BURNISH_SIMD void gradient_row(const float* dy, const float* y, const float* gain, int64_t n, float* dx, float* dot, float* sum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dot[i] += dy[i] * y[i];
    sum[i] += dy[i];
    dx[i] = dy[i] * gain[i];
  }
}

template <class T>
void scale_rows(const at::Tensor& x, const float* gain, const float* offset, const at::Tensor& y) {
  const int64_t n = x.size(-1), rows = x.numel() / n;
  const T* xp = x.const_data_ptr<T>();
  T* yp = y.mutable_data_ptr<T>();
  at::parallel_for(0, rows, kRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(static_cast<size_t>(2 * n));
    for (int64_t row = begin; row < end; ++row) {
      float* out = target(yp + row * n, buffer.data() + n);
      scale_row(as_fp32(xp + row * n, buffer.data(), n), gain, offset, n, out);
      store_row(out, yp + row * n, n);
    }
  });
}

template <class T>
void gradient_rows(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& gain_C, int64_t rows_per_task, at::Tensor& dx,
                   at::Tensor& sums) {
  if (dy.is_meta()) return;
  const auto* gain = gain_C.const_data_ptr<float>();
  auto* partial = sums.mutable_data_ptr<float>();
  const int64_t n = dy.size(-1), rows = dy.numel() / n, tasks = (rows + rows_per_task - 1) / rows_per_task;
  const T *dyp = dy.const_data_ptr<T>(), *yp = y.const_data_ptr<T>();
  T* dxp = dx.mutable_data_ptr<T>();
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(static_cast<size_t>(3 * n));
    for (int64_t task = begin; task < end; ++task) {
      float *dot = partial + 2 * task * n, *sum = dot + n;
      for (int64_t row = task * rows_per_task; row < std::min(rows, (task + 1) * rows_per_task); ++row) {
        const float* dy_row = as_fp32(dyp + row * n, buffer.data(), n);
        const float* y_row = as_fp32(yp + row * n, buffer.data() + n, n);
        float* out = target(dxp + row * n, buffer.data() + 2 * n);
        gradient_row(dy_row, y_row, gain, n, out, dot, sum);
        store_row(out, dxp + row * n, n);
      }
    }
  });
}

}  // namespace

bool channel_gain_fits_cpu(const at::Tensor& x, const at::Tensor& gain) {
  auto dtype = x.scalar_type();
  return runs_on_cpu(x) && (dtype == at::kFloat || dtype == at::kBFloat16) && x.is_contiguous() && x.numel() > 0 &&
         gain.scalar_type() == at::kFloat && gain.is_contiguous();
}

void scale_channels_cpu(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& offset, const at::Tensor& y) {
  auto shift = offset.defined() ? offset.to(at::kFloat).contiguous() : at::zeros({x.size(-1)}, gain.options().requires_grad(false));
  if (x.is_meta()) return;
  const float *gain_p = gain.const_data_ptr<float>(), *shift_p = shift.const_data_ptr<float>();
  if (x.scalar_type() == at::kFloat) scale_rows<float>(x, gain_p, shift_p, y);
  else scale_rows<c10::BFloat16>(x, gain_p, shift_p, y);
}

ChannelGradients channel_gradients_cpu(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& gain) {
  const int64_t n = dy.size(-1), rows = dy.numel() / n;
  // Sixteen partial sums at most, so that they stay small; how rows are shared out does not depend on the number of threads.
  const int64_t rows_per_task = std::max(kRowsPerTask, (rows + 15) / 16);
  auto partial = at::zeros({(rows + rows_per_task - 1) / rows_per_task, 2, n}, gain.options().requires_grad(false));
  auto dx = at::empty_like(dy);
  if (dy.scalar_type() == at::kFloat) gradient_rows<float>(dy, y, gain, rows_per_task, dx, partial);
  else gradient_rows<c10::BFloat16>(dy, y, gain, rows_per_task, dx, partial);
  auto total = partial.sum(0);
  return {dx, total.select(0, 0), total.select(0, 1)};
}

}  // namespace burnish::kernels
