#include "kernels/rounding/gpu.h"

#include <algorithm>
#include <limits>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kRoundingBlock = 1024;

const Binary* rounding_kernel(const char* function, const at::Tensor& tensor) {
  return find_kernel(kernel_name(function, "fp32", {kRoundingBlock}), tensor.device());
}

void run_rounding(const char* function, const at::Tensor& like, const std::vector<Argument>& arguments) {
  launch(*rounding_kernel(function, like), {(like.numel() + kRoundingBlock - 1) / kRoundingBlock, 1, 1}, arguments);
}

}  // namespace

bool rounding_fits_gpu(std::initializer_list<at::Tensor> tensors) {
  const auto& first = *tensors.begin();
  const int64_t count = first.numel();
  return !runs_on_cpu(first) && count > 0 && count % 16 == 0 && count <= std::numeric_limits<int32_t>::max() - kRoundingBlock &&
         std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& t) { return t.numel() == count && t.is_contiguous() && is_aligned(t); }) &&
         rounding_kernel("rounding.join", first) != nullptr;
}

void round_stochastically_gpu(const at::Tensor& from, const at::Tensor& to, uint32_t key) {
  run_rounding("rounding.to_bf16", from, {{"from", from}, {"to", to}, {"count", from.numel()}, {"key", int64_t{key}}});
}

void round_to_e4m3_gpu(const at::Tensor& from, const at::Tensor& codes, uint32_t key) {
  run_rounding("rounding.to_e4m3", from, {{"from", from}, {"to", codes}, {"count", from.numel()}, {"key", int64_t{key}}});
}

void split_remainder_gpu(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& remainder) {
  run_rounding("rounding.split", exact, {{"exact", exact}, {"rounded", rounded}, {"remainder", remainder}, {"count", exact.numel()}});
}

void join_remainder_gpu(const at::Tensor& rounded, const at::Tensor& remainder, const at::Tensor& exact) {
  run_rounding("rounding.join", exact, {{"rounded", rounded}, {"remainder", remainder}, {"exact", exact}, {"count", exact.numel()}});
}

}  // namespace burnish::kernels
