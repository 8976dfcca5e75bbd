#include <ATen/TensorOperators.h>

#include "optim/factored.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

class Came final : public UpdateRule {
 public:
  explicit Came(const CameOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    std::vector<Slot> list = factored_slots("exp_avg_sq", parameter);
    list.push_back({"exp_avg", zeros_for(parameter), 0});
    if (parameter.value.dim() < 2) return list;
    for (Slot& slot : factored_slots("exp_avg_res", parameter)) list.push_back(std::move(slot));
    return list;
  }

  int64_t granule(int64_t numel) const override { return numel; }

  void apply(const Batch& batch) override {
    const auto& o = options_;
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const auto& slots = batch.slots[i];
      const at::Tensor value = batch.values[i].view(batch.shapes[i]), gradient = batch.gradients[i].view(batch.shapes[i]);
      size_t place = 0;
      at::Tensor update = update_factored(slots, place, gradient.square().add_(o.eps1), o.beta2).mul_(gradient);
      clip_update(update, o.clip_threshold);
      const at::Tensor exp_avg = slots[place++].mul_(o.beta1).add_(update, 1 - o.beta1);
      // Where updates are far from their average, confidence is low and the step is small.
      update = value.dim() < 2 ? exp_avg : update_factored(slots, place, (update - exp_avg).square_().add_(o.eps2), o.beta3).mul_(exp_avg);
      value.mul_(1 - batch.weight_decay * batch.lr).sub_(update, batch.lr);
    }
  }

 private:
  CameOptions options_;
};

}  // namespace

RulePtr came(const CameOptions& options) { return std::make_shared<Came>(options); }

}  // namespace burnish::optim
