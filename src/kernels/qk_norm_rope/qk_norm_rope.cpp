#include "kernels/qk_norm_rope/qk_norm_rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/stack.h>

#include "kernels/qk_norm_rope/cpu.h"
#include "kernels/qk_norm_rope/gpu.h"

namespace burnish::kernels {

at::Tensor qk_norm_rope_reference(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP,
                                  double eps) {
  auto normed = at::rms_norm(x_BLHD, weight.sizes(), weight, eps);
  auto pairs = normed.to(at::kFloat).unflatten(-1, {-1, 2});
  auto first = pairs.select(-1, 0), second = pairs.select(-1, 1);
  auto over_heads = [](const at::Tensor& table) { return table.unsqueeze(-2); };
  auto cos = over_heads(cos_LP), sin = over_heads(sin_LP);
  auto rotated = at::stack({first * cos - second * sin, second * cos + first * sin}, -1);
  return rotated.flatten(-2).to(x_BLHD.scalar_type()).transpose(1, 2);
}

bool qk_norm_rope_is_one_pass(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP) {
  return qk_norm_rope_fits_cpu(x_BLHD, weight, cos_LP, sin_LP) || qk_norm_rope_fits_gpu(x_BLHD, weight, cos_LP, sin_LP);
}

at::Tensor qk_norm_rope(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP,
                        double eps) {
  if (qk_norm_rope_fits_cpu(x_BLHD, weight, cos_LP, sin_LP)) return qk_norm_rope_cpu(x_BLHD, weight, cos_LP, sin_LP, eps);
  if (qk_norm_rope_fits_gpu(x_BLHD, weight, cos_LP, sin_LP)) return qk_norm_rope_gpu(x_BLHD, weight, cos_LP, sin_LP, eps);
  return qk_norm_rope_reference(x_BLHD, weight, cos_LP, sin_LP, eps);
}

}  // namespace burnish::kernels
