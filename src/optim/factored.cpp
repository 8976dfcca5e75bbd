#include "optim/factored.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace burnish::optim {

std::vector<Slot> factored_slots(const std::string& name, const NamedParameter& parameter) {
  std::vector<int64_t> rows = parameter.value.sizes().vec();
  if (rows.size() < 2) return {{name, zeros_for(parameter), 0}};
  std::vector<int64_t> columns = rows;
  columns.erase(columns.end() - 2);
  rows.pop_back();
  return {{name + "_row", zeros_for(parameter, at::IntArrayRef(rows)), 0},
          {name + "_col", zeros_for(parameter, at::IntArrayRef(columns)), 0}};
}

at::Tensor update_factored(const std::vector<at::Tensor>& slots, size_t& first, const at::Tensor& positive, double beta) {
  if (positive.dim() < 2) {
    const at::Tensor& average = slots[first++];
    return average.mul_(beta).add_(positive, 1 - beta).rsqrt();
  }
  const at::Tensor &row = slots[first], &column = slots[first + 1];
  first += 2;
  row.mul_(beta).add_(positive.mean(-1), 1 - beta);
  column.mul_(beta).add_(positive.mean(-2), 1 - beta);
  return (row / row.mean(-1, /*keepdim=*/true)).rsqrt_().unsqueeze(-1) * column.unsqueeze(-2).rsqrt();
}

at::Tensor root_mean_square(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2, /*dim=*/{}, /*keepdim=*/false, at::kDouble).div_(std::sqrt(static_cast<double>(tensor.numel())));
}

void clip_update(at::Tensor& update, double threshold) { update.div_(root_mean_square(update).div_(threshold).clamp_min_(1)); }

}  // namespace burnish::optim
