#include "kernels/qk_norm_rope/gpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kTokensOfProgram = 8;  // whose gradients for the weight a program adds up

/// Heads of one token that a program takes, 1024 numbers of them, or all of those that are normed together; 0 where there is no kernel.
int64_t heads_of_program(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t heads = x.size(2), width = x.size(3);
  if (weight.dim() == 1) return width == 64 ? 16 : width == 128 ? 8 : 0;
  if (width != 128 || heads > 64) return 0;
  return heads > 32 ? 64 : heads > 16 ? 32 : 16;
}

const Binary* qk_norm_rope_kernel(const char* function, const at::Tensor& x, std::initializer_list<int64_t> constants) {
  return find_kernel(kernel_name(function, kernel_dtype(x.scalar_type()), constants), x.device());
}

/// Returns the distance from the angles of one sample to those of the next.
int64_t table_batch(const at::Tensor& table) { return table.dim() == 3 ? table.stride(0) : 0; }

struct QkNormRopeGpu : torch::autograd::Function<QkNormRopeGpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos,
                            const at::Tensor& sin, double eps) {
    const int64_t batch = x.size(0), rows = x.size(1), heads = x.size(2), width = x.size(3), each = heads_of_program(x, weight);
    const int64_t together = weight.dim() - 1;
    auto y = at::empty({batch, heads, rows, width}, x.options());
    launch(*qk_norm_rope_kernel("qk_norm_rope.forward", x, {each, width, together}), {rows, (heads + each - 1) / each, batch},
           {{"x", x},
            {"weight", weight},
            {"cos", cos},
            {"sin", sin},
            {"y", y},
            {"rows", rows},
            {"heads", heads},
            {"table_batch", table_batch(cos)},
            {"eps", eps}});
    ctx->save_for_backward({x, weight, cos, sin});
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &cos = saved[2], &sin = saved[3];
    const int64_t batch = x.size(0), rows = x.size(1), heads = x.size(2), width = x.size(3), each = heads_of_program(x, weight);
    const int64_t programs = (rows + kTokensOfProgram - 1) / kTokensOfProgram, parts = (heads + each - 1) / each;
    const int64_t together = weight.dim() - 1;
    const bool of_weight = ctx->needs_input_grad(1);
    auto dx = at::empty_like(x);
    at::Tensor sums, dweight;
    if (of_weight) sums = at::empty({batch * parts * programs, weight.numel()}, x.options().dtype(at::kFloat));
    launch(*qk_norm_rope_kernel("qk_norm_rope.backward", x, {each, width, together, of_weight}), {programs, parts, batch},
           {{"x", x},
            {"weight", weight},
            {"cos", cos},
            {"sin", sin},
            {"dy", contiguous_aligned(grads[0])},
            {"dx", dx},
            {"sums", sums},
            {"rows", rows},
            {"heads", heads},
            {"table_batch", table_batch(cos)},
            {"rows_each", kTokensOfProgram},
            {"eps", ctx->saved_data["eps"].toDouble()}});
    if (of_weight) dweight = sums.sum(0).view(weight.sizes()).to(weight.scalar_type());
    return {dx, dweight, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool qk_norm_rope_fits_gpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin) {
  auto dtype = x.scalar_type();
  if (runs_on_cpu(x) || kernel_dtype(dtype).empty() || x.dim() != 4 || x.numel() == 0) return false;
  auto is_table = [&](const at::Tensor& t) {
    bool of_batch = t.dim() == 2 || (t.dim() == 3 && t.size(0) == x.size(0));
    return t.scalar_type() == at::kFloat && of_batch && t.is_contiguous() && is_aligned(t) && t.size(-2) == x.size(1) &&
           t.size(-1) == x.size(3) / 2;
  };
  const int64_t each = heads_of_program(x, weight);
  return each > 0 && x.is_contiguous() && is_aligned(x) && weight.scalar_type() == dtype && weight.is_contiguous() && is_aligned(weight) &&
         is_table(cos) && is_table(sin) && cos.dim() == sin.dim() &&
         qk_norm_rope_kernel("qk_norm_rope.forward", x, {each, x.size(3), weight.dim() - 1}) != nullptr;
}

at::Tensor qk_norm_rope_gpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin, double eps) {
  return QkNormRopeGpu::apply(x, weight, cos, sin, eps);
}

}  // namespace burnish::kernels
