#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include <map>

#include "optim/rules.h"

namespace burnish::optim {
namespace {

class AdamW final : public UpdateRule {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    return {{"exp_avg", zeros_for(parameter)}, {"exp_avg_sq", zeros_for(parameter)}};
  }

  bool is_fused() const override { return true; }

  void apply(const Batch& batch) override {
    std::map<int64_t, at::Tensor> counts;  // one scalar for each count serves all parameters
    std::vector<at::Tensor> steps;
    for (const int64_t step : batch.steps) {
      at::Tensor& count = counts[step];
      if (!count.defined()) count = at::full({}, static_cast<double>(step), batch.values[0].options());
      steps.push_back(count);
    }
    at::_fused_adamw_(batch.values, batch.gradients, batch.slot(0), batch.slot(1), /*max_exp_avg_sqs=*/{}, steps, batch.lr, options_.beta1,
                      options_.beta2, batch.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
  }

 private:
  AdamWOptions options_;
};

}  // namespace

RulePtr adamw(const AdamWOptions& options) { return std::make_shared<AdamW>(options); }

}  // namespace burnish::optim
