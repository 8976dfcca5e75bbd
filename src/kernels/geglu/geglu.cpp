#include "kernels/geglu/geglu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/geglu/gpu.h"

namespace burnish::kernels {

namespace {

struct Geglu : torch::autograd::Function<Geglu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    auto halves = x.chunk(2, -1);
    return at::gelu(halves[1]).mul_(halves[0]);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto x = ctx->get_saved_variables()[0];
    auto halves = x.chunk(2, -1);
    auto dx = at::empty_like(x);
    auto parts = dx.chunk(2, -1);
    at::mul_out(parts[0], grads[0], at::gelu(halves[1]));
    at::gelu_backward_out(parts[1], grads[0] * halves[0], halves[1]);
    return {dx};
  }
};

}  // namespace

at::Tensor geglu(const at::Tensor& x) { return geglu_fits_gpu(x) ? geglu_gpu(x) : Geglu::apply(x); }

}  // namespace burnish::kernels
