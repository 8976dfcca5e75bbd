#include "kernels/gelu_tanh/gpu.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kGeluBlock = 1024;

const Binary* gelu_tanh_kernel(const char* function, const at::Tensor& x) {
  return find_kernel(kernel_name(function, kernel_dtype(x.scalar_type()), {kGeluBlock}), x.device());
}

std::array<int64_t, 3> gelu_tanh_grid(const at::Tensor& x) { return {(x.numel() + kGeluBlock - 1) / kGeluBlock, 1, 1}; }

struct GeluTanhGpu : torch::autograd::Function<GeluTanhGpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    auto y = at::empty_like(x);
    launch(*gelu_tanh_kernel("gelu_tanh.forward", x), gelu_tanh_grid(x), {{"x", x}, {"y", y}, {"count", x.numel()}});
    ctx->save_for_backward({x});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto x = ctx->get_saved_variables()[0];
    auto dx = at::empty_like(x);
    launch(*gelu_tanh_kernel("gelu_tanh.backward", x), gelu_tanh_grid(x),
           {{"x", x}, {"dy", contiguous_aligned(grads[0])}, {"dx", dx}, {"count", x.numel()}});
    return {dx};
  }
};

}  // namespace

bool gelu_tanh_fits_gpu(const at::Tensor& x) {
  return !runs_on_cpu(x) && !kernel_dtype(x.scalar_type()).empty() && x.is_contiguous() && is_aligned(x) && x.numel() > 0 &&
         x.numel() % 16 == 0 && x.numel() <= std::numeric_limits<int32_t>::max() - kGeluBlock &&
         gelu_tanh_kernel("gelu_tanh.forward", x) != nullptr;
}

at::Tensor gelu_tanh_gpu(const at::Tensor& x) { return GeluTanhGpu::apply(x); }

}  // namespace burnish::kernels
