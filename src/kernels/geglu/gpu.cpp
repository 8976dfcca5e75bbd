#include "kernels/geglu/gpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kGegluBlock = 1024;

const Binary* geglu_kernel(const char* function, const at::Tensor& x) {
  return find_kernel(kernel_name(function, kernel_dtype(x.scalar_type()), {kGegluBlock}), x.device());
}

std::array<int64_t, 3> geglu_grid(const at::Tensor& x) {
  const int64_t width = x.size(-1) / 2;
  return {x.numel() / x.size(-1), (width + kGegluBlock - 1) / kGegluBlock, 1};
}

struct GegluGpu : torch::autograd::Function<GegluGpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    auto sizes = x.sizes().vec();
    sizes.back() /= 2;
    auto y = at::empty(sizes, x.options());
    launch(*geglu_kernel("geglu.forward", x), geglu_grid(x), {{"x", x}, {"y", y}, {"width", sizes.back()}});
    ctx->save_for_backward({x});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto x = ctx->get_saved_variables()[0];
    auto dx = at::empty_like(x);
    launch(*geglu_kernel("geglu.backward", x), geglu_grid(x),
           {{"x", x}, {"dy", contiguous_aligned(grads[0])}, {"dx", dx}, {"width", x.size(-1) / 2}});
    return {dx};
  }
};

}  // namespace

bool geglu_fits_gpu(const at::Tensor& x) {
  return !runs_on_cpu(x) && !kernel_dtype(x.scalar_type()).empty() && x.is_contiguous() && is_aligned(x) && x.numel() > 0 &&
         x.size(-1) % 32 == 0 && geglu_kernel("geglu.forward", x) != nullptr;
}

at::Tensor geglu_gpu(const at::Tensor& x) { return GegluGpu::apply(x); }

}  // namespace burnish::kernels
