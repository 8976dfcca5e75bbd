#include "kernels/adamw_8bit/gpu.h"

#include <cmath>
#include <limits>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kBlocksOfProgram = 4, kNumbersOfProgram = kBlocksOfProgram * 256;

const Binary* adamw_8bit_kernel(const at::Tensor& value) {
  return find_kernel(kernel_name("adamw_8bit.update", "fp32", {kBlocksOfProgram}), value.device());
}

bool is_moment(const CodedMoment& moment, int64_t count) {
  return moment.codes.numel() == count && moment.codes.is_contiguous() && is_aligned(moment.codes) && moment.scales.is_contiguous() &&
         moment.scales.scalar_type() == at::kFloat;
}

}  // namespace

bool adamw_8bit_fits_gpu(const at::Tensor& value, const at::Tensor& gradient, const CodedMoment& first, const CodedMoment& second) {
  const int64_t count = value.numel();
  auto is_exact = [&](const at::Tensor& t) { return t.scalar_type() == at::kFloat && t.is_contiguous() && is_aligned(t); };
  return !runs_on_cpu(value) && count > 0 && count % 16 == 0 && count <= std::numeric_limits<int32_t>::max() - kNumbersOfProgram &&
         is_exact(value) && is_exact(gradient) && is_moment(first, count) && is_moment(second, count) &&
         adamw_8bit_kernel(value) != nullptr;
}

void adamw_8bit_gpu(const at::Tensor& value, const at::Tensor& gradient, const CodedMoment& first, const CodedMoment& second,
                    const AdamWStep& step) {
  const auto count = static_cast<double>(step.step);
  launch(*adamw_8bit_kernel(value), {(value.numel() + kNumbersOfProgram - 1) / kNumbersOfProgram, 1, 1},
         {{"value", value},
          {"gradient", gradient},
          {"first_codes", first.codes},
          {"first_scales", first.scales},
          {"second_codes", second.codes},
          {"second_scales", second.scales},
          {"first_values", first.values},
          {"first_borders", first.borders},
          {"second_values", second.values},
          {"second_borders", second.borders},
          {"count", value.numel()},
          {"decay", 1 - step.lr * step.weight_decay},
          {"beta1", step.beta1},
          {"rest1", 1 - step.beta1},
          {"beta2", step.beta2},
          {"rest2", 1 - step.beta2},
          {"step_size", step.lr / (1 - std::pow(step.beta1, count))},
          {"root_correction", std::sqrt(1 - std::pow(step.beta2, count))},
          {"eps", step.eps}});
}

}  // namespace burnish::kernels
