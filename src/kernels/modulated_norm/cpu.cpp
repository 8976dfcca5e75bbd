#include "kernels/modulated_norm/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

#include "kernels/cpu_rows.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

BURNISH_SIMD void mean_and_rstd(const float* x, int64_t n, float eps, float& mean, float& rstd) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const float m = sum / static_cast<float>(n);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - m) * (x[i] - m);
  mean = m;
  rstd = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
}

BURNISH_SIMD void apply(const float* x, const float* scale, const float* shift, float mean, float rstd, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * (1.0f + scale[i]) + shift[i];
}

/// dx of one row: with g = dy (1 + scale), dx = rstd (g - mean(g) - x̂ mean(g x̂)).
BURNISH_SIMD void input_gradient(const float* x, const float* dy, const float* scale, float mean, float rstd, int64_t n, float* dx) {
  float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
  for (int64_t i = 0; i < n; ++i) {
    const float g = dy[i] * (1.0f + scale[i]);
    sum += g;
    dot += g * (x[i] - mean);
  }
  const float a = sum / static_cast<float>(n), b = dot * rstd * rstd / static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = rstd * (dy[i] * (1.0f + scale[i]) - a - (x[i] - mean) * b);
}

BURNISH_SIMD void add_modulation_gradient(const float* x, const float* dy, float mean, float rstd, int64_t n, float* dscale,
                                          float* dshift) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dscale[i] += dy[i] * (x[i] - mean) * rstd;
    dshift[i] += dy[i];
  }
}

/// Calls task(batch, first_row, last_row, index) for pieces of at most kRowsPerTask rows that lie in one batch entry.
template <class Task>
void for_row_pieces(int64_t batch, int64_t rows, const Task& task) {
  const int64_t pieces = (rows + kRowsPerTask - 1) / kRowsPerTask;
  at::parallel_for(0, batch * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t b = p / pieces, first = p % pieces * kRowsPerTask;
      task(b, b * rows + first, b * rows + std::min(rows, first + kRowsPerTask), p);
    }
  });
}

template <class T>
void forward_rows(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, float eps, at::Tensor& y, at::Tensor& statistics) {
  if (x.is_meta()) return;
  const int64_t n = x.size(2);
  const T *xp = x.const_data_ptr<T>(), *scale_p = scale.const_data_ptr<T>(), *shift_p = shift.const_data_ptr<T>();
  T* yp = y.mutable_data_ptr<T>();
  float* stats = statistics.mutable_data_ptr<float>();
  for_row_pieces(x.size(0), x.size(1), [&](int64_t b, int64_t first, int64_t last, int64_t) {
    std::vector<float> buffer(static_cast<size_t>(4 * n));
    const float* scale_row = as_fp32(scale_p + b * scale.stride(0), buffer.data(), n);
    const float* shift_row = as_fp32(shift_p + b * shift.stride(0), buffer.data() + n, n);
    for (int64_t row = first; row < last; ++row) {
      const float* x_row = as_fp32(xp + row * n, buffer.data() + 2 * n, n);
      float* out = target(yp + row * n, buffer.data() + 3 * n);
      mean_and_rstd(x_row, n, eps, stats[2 * row], stats[2 * row + 1]);
      apply(x_row, scale_row, shift_row, stats[2 * row], stats[2 * row + 1], n, out);
      store_row(out, yp + row * n, n);
    }
  });
}

/// dx, and where `partial` [2, B, pieces, D] is defined the sums over each piece's rows for scale and shift.
template <class T>
void backward_rows(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& statistics, const at::Tensor& dy, at::Tensor& dx,
                   at::Tensor& partial) {
  if (x.is_meta()) return;
  const int64_t n = x.size(2), pieces = (x.size(1) + kRowsPerTask - 1) / kRowsPerTask;
  const bool modulation = partial.defined();
  const T *xp = x.const_data_ptr<T>(), *scale_p = scale.const_data_ptr<T>(), *dy_p = dy.const_data_ptr<T>();
  T* dx_p = dx.mutable_data_ptr<T>();
  const float* stats = statistics.const_data_ptr<float>();
  float* partial_p = modulation ? partial.mutable_data_ptr<float>() : nullptr;
  for_row_pieces(x.size(0), x.size(1), [&](int64_t b, int64_t first, int64_t last, int64_t piece) {
    std::vector<float> buffer(static_cast<size_t>(4 * n));
    const float* scale_row = as_fp32(scale_p + b * scale.stride(0), buffer.data(), n);
    for (int64_t row = first; row < last; ++row) {
      const float* x_row = as_fp32(xp + row * n, buffer.data() + n, n);
      const float* dy_row = as_fp32(dy_p + row * n, buffer.data() + 2 * n, n);
      float* out = target(dx_p + row * n, buffer.data() + 3 * n);
      input_gradient(x_row, dy_row, scale_row, stats[2 * row], stats[2 * row + 1], n, out);
      store_row(out, dx_p + row * n, n);
      if (!modulation) continue;
      auto* dscale = partial_p + piece * n;
      add_modulation_gradient(x_row, dy_row, stats[2 * row], stats[2 * row + 1], n, dscale, dscale + x.size(0) * pieces * n);
    }
  });
}

struct ModulatedNorm : torch::autograd::Function<ModulatedNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift,
                            double eps) {
    auto y = at::empty_like(x);
    auto statistics = at::empty({x.size(0) * x.size(1), 2}, x.options().dtype(at::kFloat));
    if (x.scalar_type() == at::kFloat) forward_rows<float>(x, scale, shift, static_cast<float>(eps), y, statistics);
    else forward_rows<c10::BFloat16>(x, scale, shift, static_cast<float>(eps), y, statistics);
    ctx->save_for_backward({x, scale, statistics});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    auto dy = grads[0].contiguous();
    const auto &x = saved[0], &scale = saved[1];
    auto dx = at::empty_like(x);
    at::Tensor partial, dscale, dshift;
    const int64_t pieces = (x.size(1) + kRowsPerTask - 1) / kRowsPerTask;
    if (ctx->needs_input_grad(1) || ctx->needs_input_grad(2))
      partial = at::zeros({2, x.size(0), pieces, x.size(2)}, x.options().dtype(at::kFloat));
    if (x.scalar_type() == at::kFloat) backward_rows<float>(x, scale, saved[2], dy, dx, partial);
    else backward_rows<c10::BFloat16>(x, scale, saved[2], dy, dx, partial);
    if (partial.defined()) {
      dscale = partial.select(0, 0).sum(1).to(scale.scalar_type());
      dshift = partial.select(0, 1).sum(1).to(scale.scalar_type());
    }
    return {dx, dscale, dshift, at::Tensor()};
  }
};

}  // namespace

bool modulated_norm_fits_cpu(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift) {
  auto dtype = x.scalar_type();
  return runs_on_cpu(x) && (dtype == at::kFloat || dtype == at::kBFloat16) && x.dim() == 3 && x.is_contiguous() && scale.dim() == 2 &&
         scale.scalar_type() == dtype && shift.scalar_type() == dtype && scale.stride(1) == 1 && shift.stride(1) == 1 &&
         scale.sizes() == shift.sizes() && scale.size(0) == x.size(0) && scale.size(1) == x.size(2);
}

at::Tensor modulated_norm_cpu(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, double eps) {
  return ModulatedNorm::apply(x, scale, shift, eps);
}

}  // namespace burnish::kernels
