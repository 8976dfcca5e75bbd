#include "kernels/qk_norm_rope/cpu.h"

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

BURNISH_SIMD float inverse_rms(const float* x, int64_t n, float eps) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  return 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
}

/// y = rotate(x rms w): pairs (2p, 2p+1) turned by the angle of p.
BURNISH_SIMD void norm_and_rotate(const float* x, const float* w, const float* cos, const float* sin, float rms, int64_t n, float* y) {
#pragma omp simd
  for (int64_t p = 0; p < n / 2; ++p) {
    const float a = x[2 * p] * rms * w[2 * p], b = x[2 * p + 1] * rms * w[2 * p + 1];
    y[2 * p] = a * cos[p] - b * sin[p];
    y[2 * p + 1] = b * cos[p] + a * sin[p];
  }
}

/// dn: dy turned back.
BURNISH_SIMD void rotate_back(const float* dy, const float* cos, const float* sin, int64_t n, float* dn) {
#pragma omp simd
  for (int64_t p = 0; p < n / 2; ++p) {
    const float a = dy[2 * p], b = dy[2 * p + 1];
    dn[2 * p] = a * cos[p] + b * sin[p];
    dn[2 * p + 1] = b * cos[p] - a * sin[p];
  }
}

/// The gradient of a norm over n numbers: leaves dx, and adds x̂·dn to dw when asked.
BURNISH_SIMD void input_gradient(const float* x, const float* w, const float* dn, float rms, int64_t n, float* dx, float* dw) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t i = 0; i < n; ++i) dot += dn[i] * w[i] * x[i];
  const float c = dot * rms * rms / static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = rms * (dn[i] * w[i] - x[i] * c);
  if (dw == nullptr) return;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dw[i] += dn[i] * x[i] * rms;
}

/// Sizes of x [B, L, H, D], in whose order y and dy are kept too; N numbers, of one head or of all, share a norm.
struct Geometry {
  int64_t B, L, H, D, N, pieces;
  Geometry(const at::Tensor& x, const at::Tensor& weight)
      : B(x.size(0)), L(x.size(1)), H(x.size(2)), D(x.size(3)), N(weight.numel()), pieces((L + kRowsPerTask - 1) / kRowsPerTask) {}
  /// Calls task(b, first token, last token, index) in parallel.
  template <class Task>
  void for_pieces(const Task& task) const {
    at::parallel_for(0, B * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p % pieces * kRowsPerTask;
        task(p / pieces, first, std::min(L, first + kRowsPerTask), p);
      }
    });
  }
  /// Returns the row of a token in a table [L, P] or [B, L, P].
  static const float* row(const at::Tensor& table, int64_t b, int64_t l) {
    return table.const_data_ptr<float>() + (table.dim() == 3 ? b * table.stride(0) : 0) + l * table.stride(-2);
  }
  int64_t at(int64_t b, int64_t l, int64_t h) const { return ((b * L + l) * H + h) * D; }
};

template <class T>
void forward_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin, float eps, at::Tensor& y) {
  if (x.is_meta()) return;
  const Geometry g(x, weight);
  const T *xp = x.const_data_ptr<T>(), *wp = weight.const_data_ptr<T>();
  T* yp = y.mutable_data_ptr<T>();
  g.for_pieces([&](int64_t b, int64_t first, int64_t last, int64_t) {
    std::vector<float> buffer(static_cast<size_t>(2 * g.N + g.D));
    const float* w = as_fp32(wp, buffer.data(), g.N);
    for (int64_t l = first; l < last; ++l) {
      const float *cos_l = Geometry::row(cos, b, l), *sin_l = Geometry::row(sin, b, l);
      for (int64_t h = 0; h < g.H; h += g.N / g.D) {
        const float* row = as_fp32(xp + g.at(b, l, h), buffer.data() + g.N, g.N);
        const float rms = inverse_rms(row, g.N, eps);
        for (int64_t i = 0; i < g.N; i += g.D) {
          T* to = yp + g.at(b, l, h) + i;
          float* out = target(to, buffer.data() + 2 * g.N);
          norm_and_rotate(row + i, w + i, cos_l, sin_l, rms, g.D, out);
          store_row(out, to, g.D);
        }
      }
    }
  });
}

/// dx, and where `partial` [pieces, N] is defined the weight's gradient in each piece's rows.
template <class T>
void backward_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& dy,
                   float eps, at::Tensor& dx, at::Tensor& partial) {
  if (x.is_meta()) return;
  const Geometry g(x, weight);
  const T *xp = x.const_data_ptr<T>(), *wp = weight.const_data_ptr<T>(), *dy_p = dy.const_data_ptr<T>();
  T* dx_p = dx.mutable_data_ptr<T>();
  float* partial_p = partial.defined() ? partial.mutable_data_ptr<float>() : nullptr;
  g.for_pieces([&](int64_t b, int64_t first, int64_t last, int64_t piece) {
    std::vector<float> buffer(static_cast<size_t>(4 * g.N + g.D));
    float *const dn = buffer.data() + 3 * g.N, *const of_head = buffer.data() + 4 * g.N;
    const float* w = as_fp32(wp, buffer.data(), g.N);
    for (int64_t l = first; l < last; ++l) {
      const float *cos_l = Geometry::row(cos, b, l), *sin_l = Geometry::row(sin, b, l);
      for (int64_t h = 0; h < g.H; h += g.N / g.D) {
        const float* row = as_fp32(xp + g.at(b, l, h), buffer.data() + g.N, g.N);
        for (int64_t i = 0; i < g.N; i += g.D) rotate_back(as_fp32(dy_p + g.at(b, l, h) + i, of_head, g.D), cos_l, sin_l, g.D, dn + i);
        T* to = dx_p + g.at(b, l, h);
        float* out = target(to, buffer.data() + 2 * g.N);
        input_gradient(row, w, dn, inverse_rms(row, g.N, eps), g.N, out, partial_p ? partial_p + piece * g.N : nullptr);
        store_row(out, to, g.N);
      }
    }
  });
}

struct QkNormRope : torch::autograd::Function<QkNormRope> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos,
                            const at::Tensor& sin, double eps) {
    auto y = at::empty_like(x);  // attention answers in the order of its queries, and a token's heads side by side is how they are merged
    if (x.scalar_type() == at::kFloat) forward_rows<float>(x, weight, cos, sin, static_cast<float>(eps), y);
    else forward_rows<c10::BFloat16>(x, weight, cos, sin, static_cast<float>(eps), y);
    ctx->save_for_backward({x, weight, cos, sin});
    ctx->saved_data["eps"] = eps;
    return y.transpose(1, 2);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto s = ctx->get_saved_variables();
    auto dy = grads[0].transpose(1, 2).contiguous();
    auto eps = static_cast<float>(ctx->saved_data["eps"].toDouble());
    const Geometry g(s[0], s[1]);
    auto dx = at::empty_like(s[0]);
    at::Tensor partial, dweight;
    if (ctx->needs_input_grad(1)) partial = at::zeros({g.B * g.pieces, g.N}, dx.options().dtype(at::kFloat));
    if (dx.scalar_type() == at::kFloat) backward_rows<float>(s[0], s[1], s[2], s[3], dy, eps, dx, partial);
    else backward_rows<c10::BFloat16>(s[0], s[1], s[2], s[3], dy, eps, dx, partial);
    if (partial.defined()) dweight = partial.sum(0).view(s[1].sizes()).to(s[1].scalar_type());
    return {dx, dweight, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool qk_norm_rope_fits_cpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin) {
  auto dtype = x.scalar_type();
  auto is_table = [&](const at::Tensor& t) {
    bool of_batch = t.dim() == 2 || (t.dim() == 3 && t.size(0) == x.size(0));
    return t.scalar_type() == at::kFloat && of_batch && t.stride(-1) == 1 && t.size(-2) == x.size(1) && t.size(-1) == x.size(3) / 2;
  };
  return runs_on_cpu(x) && (dtype == at::kFloat || dtype == at::kBFloat16) && x.dim() == 4 && x.is_contiguous() && x.size(3) % 2 == 0 &&
         weight.scalar_type() == dtype && weight.is_contiguous() && is_table(cos) && is_table(sin);
}

at::Tensor qk_norm_rope_cpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin, double eps) {
  return QkNormRope::apply(x, weight, cos, sin, eps);
}

}  // namespace burnish::kernels
