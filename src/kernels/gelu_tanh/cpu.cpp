#include "kernels/gelu_tanh/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu_math.h"
#include "kernels/cpu_rows.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr float kRoot2OverPi = 0.7978845608028654f, kCubic = 0.044715f;

/// (1 + tanh u) / 2.
inline float half_one_plus_tanh(float u) { return sigmoid_fp32(2.0f * u); }

BURNISH_SIMD void forward_values(const float* x, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * half_one_plus_tanh(kRoot2OverPi * (x[i] + kCubic * x[i] * x[i] * x[i]));
}

/// With s = (1 + tanh u) / 2: dy/dx = s + x · 2 s (1 - s) · u', u' = √(2/π) (1 + 3 · 0.044715 x²).
BURNISH_SIMD void backward_values(const float* x, const float* dy, int64_t n, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float square = x[i] * x[i];
    const float s = half_one_plus_tanh(kRoot2OverPi * (x[i] + kCubic * square * x[i]));
    const float slope = kRoot2OverPi * (1.0f + 3.0f * kCubic * square);
    dx[i] = dy[i] * (s + x[i] * 2.0f * s * (1.0f - s) * slope);
  }
}

/// for_chunks, in parallel.
template <class Task>
void for_chunks_in_parallel(int64_t n, const Task& task) {
  at::parallel_for(0, (n + kChunk - 1) / kChunk, 4, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) task(c * kChunk, std::min(kChunk, n - c * kChunk));
  });
}

template <class T>
void forward_all(const at::Tensor& x, at::Tensor& y) {
  if (x.is_meta()) return;
  const T* xp = x.const_data_ptr<T>();
  T* yp = y.mutable_data_ptr<T>();
  for_chunks_in_parallel(x.numel(), [&](int64_t first, int64_t count) {
    float buffer[2 * kChunk];
    float* out = target(yp + first, buffer + kChunk);
    forward_values(as_fp32(xp + first, buffer, count), count, out);
    store_row(out, yp + first, count);
  });
}

template <class T>
void backward_all(const at::Tensor& x, const at::Tensor& dy, at::Tensor& dx) {
  if (x.is_meta()) return;
  const T *xp = x.const_data_ptr<T>(), *dy_p = dy.const_data_ptr<T>();
  T* dx_p = dx.mutable_data_ptr<T>();
  for_chunks_in_parallel(x.numel(), [&](int64_t first, int64_t count) {
    float buffer[3 * kChunk];
    float* out = target(dx_p + first, buffer + 2 * kChunk);
    backward_values(as_fp32(xp + first, buffer, count), as_fp32(dy_p + first, buffer + kChunk, count), count, out);
    store_row(out, dx_p + first, count);
  });
}

struct GeluTanh : torch::autograd::Function<GeluTanh> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    auto y = at::empty_like(x);
    if (x.scalar_type() == at::kFloat) forward_all<float>(x, y);
    else forward_all<c10::BFloat16>(x, y);
    ctx->save_for_backward({x});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto x = ctx->get_saved_variables()[0];
    auto dy = grads[0].contiguous();
    auto dx = at::empty_like(x);
    if (x.scalar_type() == at::kFloat) backward_all<float>(x, dy, dx);
    else backward_all<c10::BFloat16>(x, dy, dx);
    return {dx};
  }
};

}  // namespace

bool gelu_tanh_fits_cpu(const at::Tensor& x) {
  return runs_on_cpu(x) && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.is_contiguous();
}

at::Tensor gelu_tanh_cpu(const at::Tensor& x) { return GeluTanh::apply(x); }

}  // namespace burnish::kernels
