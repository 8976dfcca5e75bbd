#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>

#include "kernels/place.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

/// A matrix of the same left and right singular vectors, whose singular values lie between about 0.7 and 1.2: Newton and Schulz's iteration
/// with the quintic polynomial that rises fastest at 0.
at::Tensor nearly_orthogonal(const at::Tensor& matrix, int64_t num_steps) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  if (!kernels::runs_on_cpu(x)) x = x.to(at::kBFloat16);
  x = x / at::linalg_vector_norm(x).clamp_min_(1e-7);
  for (int64_t i = 0; i < num_steps; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, /*beta=*/-4.7750, /*alpha=*/2.0315), x, /*beta=*/3.4445);
  }
  return (tall ? x.t() : x).to(at::kFloat);
}

class Muon final : public UpdateRule {
 public:
  explicit Muon(const MuonOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override { return {{"momentum", zeros_for(parameter), 0}}; }
  int64_t granule(int64_t numel) const override { return numel; }

  void apply(const Batch& batch) override {
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const at::Tensor value = batch.values[i].view(batch.shapes[i]), gradient = batch.gradients[i].view(batch.shapes[i]);
      at::Tensor momentum = batch.slots[i][0];
      momentum.lerp_(gradient, 1 - options_.momentum);
      const at::Tensor update =
          nearly_orthogonal(options_.nesterov ? at::lerp(gradient, momentum, options_.momentum) : momentum, options_.ns_steps);
      const auto rows = static_cast<double>(value.size(0)), columns = static_cast<double>(value.size(1));
      const double size = options_.match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
      value.mul_(1 - batch.lr * batch.weight_decay).sub_(update, batch.lr * size);
    }
  }

 private:
  MuonOptions options_;
};

}  // namespace

RulePtr muon(const MuonOptions& options) { return std::make_shared<Muon>(options); }

}  // namespace burnish::optim
