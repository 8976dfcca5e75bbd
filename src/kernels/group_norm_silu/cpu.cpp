#include "kernels/group_norm_silu/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "kernels/cpu_math.h"
#include "kernels/cpu_rows.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

/// Shape of the work: rows are the pixels of one channel of one picture.
struct Sizes {
  int64_t batch, channels, pixels, num_groups;
  int64_t per_group() const { return channels / num_groups; }
};

BURNISH_SIMD float sum_values(const float* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

BURNISH_SIMD float sum_squares(const float* x, float mean, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

BURNISH_SIMD void forward_values(const float* x, float scale, float shift, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float z = x[i] * scale + shift;
    y[i] = z * sigmoid_fp32(z);
  }
}

/// dz = dy · s (1 + z (1 - s)), s = sigmoid(z); the sums of dz and of dz · (x - mean) are added to `sums`.
BURNISH_SIMD void slope_values(const float* x, const float* dy, float scale, float shift, float mean, int64_t n, float* dz, double* sums) {
  float plain = 0, times_x = 0;
#pragma omp simd reduction(+ : plain, times_x)
  for (int64_t i = 0; i < n; ++i) {
    const float z = x[i] * scale + shift;
    const float s = sigmoid_fp32(z);
    const float slope = dy[i] * s * (1.0f + z * (1.0f - s));
    dz[i] = slope;
    plain += slope;
    times_x += slope * (x[i] - mean);
  }
  sums[0] += plain;
  sums[1] += times_x;
}

BURNISH_SIMD void combine_values(const float* x, const float* dz, float by_dz, float by_x, float constant, float mean, int64_t n,
                                 float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = by_dz * dz[i] + by_x * (x[i] - mean) + constant;
}

template <class T>
void statistics(const T* group, int64_t n, double eps, float& mean, float& rstd) {
  float buffer[kChunk];
  double sum = 0, squares = 0;
  for_chunks(n, [&](int64_t first, int64_t count) { sum += sum_values(as_fp32(group + first, buffer, count), count); });
  mean = static_cast<float>(sum / static_cast<double>(n));
  for_chunks(n, [&](int64_t first, int64_t count) { squares += sum_squares(as_fp32(group + first, buffer, count), mean, count); });
  rstd = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
}

template <class T>
void forward_group(const Sizes& s, int64_t index, const T* x, const T* weight, const T* bias, double eps, float* mean, float* rstd, T* y) {
  auto first_channel = index % s.num_groups * s.per_group(), start = index * s.per_group() * s.pixels;
  statistics(x + start, s.per_group() * s.pixels, eps, mean[index], rstd[index]);
  for (int64_t c = 0; c < s.per_group(); ++c) {
    auto scale = static_cast<float>(weight[first_channel + c]) * rstd[index];
    auto shift = static_cast<float>(bias[first_channel + c]) - mean[index] * scale;
    for_chunks(s.pixels, [&](int64_t first, int64_t count) {
      float buffer[2 * kChunk];
      auto at = start + c * s.pixels + first;
      float* out = target(y + at, buffer + kChunk);
      forward_values(as_fp32(x + at, buffer, count), scale, shift, count, out);
      store_row(out, y + at, count);
    });
  }
}

/// dweight and dbias of this group's channels go to their own places [B, C] and are summed over the batch afterwards.
template <class T>
void backward_group(const Sizes& s, int64_t index, const T* x, const T* dy, const T* weight, const T* bias, float mean, float rstd,
                    float* dw, float* db, float* dz, T* dx) {
  auto first_channel = index % s.num_groups * s.per_group(), start = index * s.per_group() * s.pixels;
  double by_dz = 0, by_dz_x = 0;
  for (int64_t c = 0; c < s.per_group(); ++c) {
    auto gamma = static_cast<float>(weight[first_channel + c]);
    auto scale = gamma * rstd, shift = static_cast<float>(bias[first_channel + c]) - mean * scale;
    double sums[2] = {0, 0};
    for_chunks(s.pixels, [&](int64_t first, int64_t count) {
      float buffer[2 * kChunk];
      auto at = start + c * s.pixels + first;
      slope_values(as_fp32(x + at, buffer, count), as_fp32(dy + at, buffer + kChunk, count), scale, shift, mean, count,
                   dz + c * s.pixels + first, sums);
    });
    db[index * s.per_group() + c] = static_cast<float>(sums[0]);
    dw[index * s.per_group() + c] = static_cast<float>(sums[1] * rstd);
    by_dz += sums[0] * gamma;
    by_dz_x += sums[1] * gamma;
  }
  auto share = 1.0 / static_cast<double>(s.per_group() * s.pixels), r = static_cast<double>(rstd);
  auto by_x = static_cast<float>(-by_dz_x * r * r * r * share), constant = static_cast<float>(-by_dz * r * share);
  for (int64_t c = 0; c < s.per_group(); ++c) {
    auto scale = static_cast<float>(weight[first_channel + c]) * rstd;
    for_chunks(s.pixels, [&](int64_t first, int64_t count) {
      float buffer[2 * kChunk];
      auto at = start + c * s.pixels + first;
      float* out = target(dx + at, buffer + kChunk);
      combine_values(as_fp32(x + at, buffer, count), dz + c * s.pixels + first, scale, by_x, constant, mean, count, out);
      store_row(out, dx + at, count);
    });
  }
}

template <class T>
void forward_all(const Sizes& s, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps, at::Tensor& mean,
                 at::Tensor& rstd, at::Tensor& y) {
  if (x.is_meta()) return;
  at::parallel_for(0, s.batch * s.num_groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      forward_group(s, i, x.const_data_ptr<T>(), weight.const_data_ptr<T>(), bias.const_data_ptr<T>(), eps, mean.data_ptr<float>(),
                    rstd.data_ptr<float>(), y.data_ptr<T>());
  });
}

template <class T>
void backward_all(const Sizes& s, const at::Tensor& x, const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& bias,
                  const at::Tensor& mean, const at::Tensor& rstd, at::Tensor& dw_BC, at::Tensor& db_BC, at::Tensor& dx) {
  at::parallel_for(0, s.batch * s.num_groups, 1, [&](int64_t begin, int64_t end) {
    auto dz = at::empty({s.per_group() * s.pixels}, mean.options());
    if (x.is_meta()) return;
    for (int64_t i = begin; i < end; ++i)
      backward_group(s, i, x.const_data_ptr<T>(), dy.const_data_ptr<T>(), weight.const_data_ptr<T>(), bias.const_data_ptr<T>(),
                     mean.const_data_ptr<float>()[i], rstd.const_data_ptr<float>()[i], dw_BC.data_ptr<float>(), db_BC.data_ptr<float>(),
                     dz.data_ptr<float>(), dx.data_ptr<T>());
  });
}

struct GroupNormSiluCpu : torch::autograd::Function<GroupNormSiluCpu> {
  static Sizes sizes_of(const at::Tensor& x, int64_t num_groups) {
    return {x.size(0), x.size(1), x.numel() / (x.size(0) * x.size(1)), num_groups};
  }

  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, int64_t num_groups, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
    auto s = sizes_of(x, num_groups);
    auto mean = at::empty({s.batch * s.num_groups}, x.options().dtype(at::kFloat)), rstd = at::empty_like(mean);
    auto y = at::empty_like(x);
    if (x.scalar_type() == at::kFloat) forward_all<float>(s, x, weight, bias, eps, mean, rstd, y);
    else forward_all<c10::BFloat16>(s, x, weight, bias, eps, mean, rstd, y);
    ctx->save_for_backward({x, weight, bias, mean, rstd});
    ctx->saved_data["num_groups"] = num_groups;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    auto s = sizes_of(x, ctx->saved_data["num_groups"].toInt());
    auto dy = grads[0].contiguous();
    auto dx = at::empty_like(x);
    auto dw_BC = at::empty({s.batch, s.channels}, saved[3].options()), db_BC = at::empty_like(dw_BC);
    if (x.scalar_type() == at::kFloat) backward_all<float>(s, x, dy, weight, saved[2], saved[3], saved[4], dw_BC, db_BC, dx);
    else backward_all<c10::BFloat16>(s, x, dy, weight, saved[2], saved[3], saved[4], dw_BC, db_BC, dx);
    return {dx, at::Tensor(), dw_BC.sum(0).to(weight.scalar_type()), db_BC.sum(0).to(weight.scalar_type()), at::Tensor()};
  }
};

}  // namespace

bool group_norm_silu_fits_cpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias) {
  return runs_on_cpu(x) && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.is_contiguous() && x.numel() > 0 &&
         x.dim() >= 2 && x.size(1) % num_groups == 0 && weight.scalar_type() == x.scalar_type() && bias.scalar_type() == x.scalar_type() &&
         weight.is_contiguous() && bias.is_contiguous();
}

at::Tensor group_norm_silu_cpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  return GroupNormSiluCpu::apply(x, num_groups, weight, bias, eps);
}

}  // namespace burnish::kernels
