#include "kernels/modulated_norm/gpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kRowsOfProgram = 16;  // of one picture, whose gradients for scale and shift a program adds up

const Binary* modulated_norm_kernel(const char* function, const at::Tensor& x, std::initializer_list<int64_t> constants) {
  return find_kernel(kernel_name(function, kernel_dtype(x.scalar_type()), constants), x.device());
}

struct ModulatedNormGpu : torch::autograd::Function<ModulatedNormGpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift,
                            double eps) {
    const int64_t batch = x.size(0), rows = x.size(1), width = x.size(2);
    auto y = at::empty_like(x);
    auto statistics = at::empty({batch * rows, 2}, x.options().dtype(at::kFloat));
    launch(*modulated_norm_kernel("modulated_norm.forward", x, {block_of_row(width)}), {rows, batch, 1},
           {{"x", x},
            {"scale", scale},
            {"shift", shift},
            {"y", y},
            {"statistics", statistics},
            {"rows", rows},
            {"width", width},
            {"scale_stride", scale.stride(0)},
            {"shift_stride", shift.stride(0)},
            {"eps", eps}});
    ctx->save_for_backward({x, scale, statistics});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    auto dy = contiguous_aligned(grads[0]);
    const auto &x = saved[0], &scale = saved[1], &statistics = saved[2];
    const int64_t batch = x.size(0), rows = x.size(1), width = x.size(2), programs = (rows + kRowsOfProgram - 1) / kRowsOfProgram;
    const bool modulation = ctx->needs_input_grad(1) || ctx->needs_input_grad(2);
    auto dx = at::empty_like(x);
    at::Tensor sums, dscale, dshift;
    if (modulation) sums = at::empty({2, batch, programs, width}, statistics.options());
    launch(*modulated_norm_kernel("modulated_norm.backward", x, {block_of_row(width), modulation}), {programs, batch, 1},
           {{"x", x},
            {"scale", scale},
            {"statistics", statistics},
            {"dy", dy},
            {"dx", dx},
            {"sums", sums},
            {"rows", rows},
            {"width", width},
            {"scale_stride", scale.stride(0)},
            {"rows_each", kRowsOfProgram}});
    if (modulation) {
      dscale = sums.select(0, 0).sum(1).to(scale.scalar_type());
      dshift = sums.select(0, 1).sum(1).to(scale.scalar_type());
    }
    return {dx, dscale, dshift, at::Tensor()};
  }
};

}  // namespace

bool modulated_norm_fits_gpu(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift) {
  auto dtype = x.scalar_type();
  if (runs_on_cpu(x) || kernel_dtype(dtype).empty() || x.dim() != 3 || scale.dim() != 2 || x.numel() == 0) return false;
  const int64_t batch = x.size(0), width = x.size(2), block = block_of_row(width);
  auto is_modulation = [&](const at::Tensor& t) {
    return t.scalar_type() == dtype && t.dim() == 2 && t.size(0) == batch && t.size(1) == width && t.stride(1) == 1 &&
           t.stride(0) % 16 == 0 && is_aligned(t);
  };
  return block > 0 && width % 16 == 0 && x.is_contiguous() && is_aligned(x) && is_modulation(scale) && is_modulation(shift) &&
         modulated_norm_kernel("modulated_norm.forward", x, {block}) != nullptr;
}

at::Tensor modulated_norm_gpu(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, double eps) {
  return ModulatedNormGpu::apply(x, scale, shift, eps);
}

}  // namespace burnish::kernels
