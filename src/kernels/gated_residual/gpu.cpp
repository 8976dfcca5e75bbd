#include "kernels/gated_residual/gpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kGatedRowsOfProgram = 16;  // of one sample, whose gradients for the gate a program adds up

const Binary* gated_residual_kernel(const char* function, const at::Tensor& y, std::initializer_list<int64_t> constants) {
  return find_kernel(kernel_name(function, kernel_dtype(y.scalar_type()), constants), y.device());
}

struct GatedResidualGpu : torch::autograd::Function<GatedResidualGpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& residual, const at::Tensor& gate,
                            const at::Tensor& y) {
    const int64_t batch = y.size(0), rows = y.size(1), width = y.size(2);
    auto out = at::empty_like(residual);
    launch(*gated_residual_kernel("gated_residual.forward", y, {block_of_row(width)}), {rows, batch, 1},
           {{"residual", residual},
            {"gate", gate},
            {"y", y},
            {"out", out},
            {"rows", rows},
            {"width", width},
            {"gate_stride", gate.stride(0)}});
    ctx->save_for_backward({gate, gate.requires_grad() ? y : at::Tensor()});
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &gate = saved[0], &y = saved[1];
    auto dout = contiguous_aligned(grads[0]);
    if (!ctx->needs_input_grad(1) && !ctx->needs_input_grad(2)) return {dout, at::Tensor(), at::Tensor()};
    const int64_t batch = dout.size(0), rows = dout.size(1), width = dout.size(2);
    const int64_t programs = (rows + kGatedRowsOfProgram - 1) / kGatedRowsOfProgram;
    auto dy = at::empty_like(dout);
    at::Tensor sums, dgate;
    if (y.defined()) sums = at::empty({batch, programs, width}, dout.options().dtype(at::kFloat));
    launch(*gated_residual_kernel("gated_residual.backward", dout, {block_of_row(width), y.defined()}), {programs, batch, 1},
           {{"gate", gate},
            {"y", y},
            {"dout", dout},
            {"dy", dy},
            {"sums", sums},
            {"rows", rows},
            {"width", width},
            {"gate_stride", gate.stride(0)},
            {"rows_each", kGatedRowsOfProgram}});
    if (y.defined()) dgate = sums.sum(1).to(gate.scalar_type());
    return {dout, dgate, dy};
  }
};

}  // namespace

bool gated_residual_fits_gpu(const at::Tensor& residual, const at::Tensor& gate, const at::Tensor& y) {
  auto dtype = y.scalar_type();
  if (runs_on_cpu(y) || kernel_dtype(dtype).empty() || y.dim() != 3 || gate.dim() != 2 || y.numel() == 0) return false;
  auto is_rows = [&](const at::Tensor& t) {
    return t.scalar_type() == dtype && t.sizes() == y.sizes() && t.is_contiguous() && is_aligned(t);
  };
  const int64_t width = y.size(2), block = block_of_row(width);
  return block > 0 && width % 16 == 0 && is_rows(residual) && is_rows(y) && gate.scalar_type() == dtype && gate.size(0) == y.size(0) &&
         gate.size(1) == width && gate.stride(1) == 1 && gate.stride(0) % 16 == 0 && is_aligned(gate) &&
         gated_residual_kernel("gated_residual.forward", y, {block}) != nullptr;
}

at::Tensor gated_residual_gpu(const at::Tensor& residual, const at::Tensor& gate, const at::Tensor& y) {
  return GatedResidualGpu::apply(residual, gate, y);
}

}  // namespace burnish::kernels
