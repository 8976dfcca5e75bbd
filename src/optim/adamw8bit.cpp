#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include "kernels/adamw_8bit/gpu.h"
#include "optim/coded_averages.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

class AdamW8bit final : public UpdateRule {
 public:
  explicit AdamW8bit(const AdamWOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    std::vector<Slot> list;
    for (const char* name : {"exp_avg", "exp_avg_sq"}) CodedAverages::add_slots(name, parameter, list);
    return list;
  }

  int64_t granule(int64_t /*numel*/) const override { return CodedAverages::kBlock; }

  void apply(const Batch& batch) override {
    const auto device = batch.values[0].device();
    const auto &first = averages_.map(device, true), &second = averages_.map(device, false);
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const kernels::CodedMoment moments[] = {{batch.slots[i][0], batch.slots[i][1], first.values, first.borders},
                                              {batch.slots[i][2], batch.slots[i][3], second.values, second.borders}};
      if (kernels::adamw_8bit_fits_gpu(batch.values[i], batch.gradients[i], moments[0], moments[1])) {
        const kernels::AdamWStep step{batch.lr, options_.beta1, options_.beta2, options_.eps, batch.weight_decay, batch.steps[i]};
        kernels::adamw_8bit_gpu(batch.values[i], batch.gradients[i], moments[0], moments[1], step);
        continue;
      }
      at::Tensor exp_avg = CodedAverages::decode(first, batch.slots[i][0], batch.slots[i][1]);
      at::Tensor exp_avg_sq = CodedAverages::decode(second, batch.slots[i][2], batch.slots[i][3]);
      at::Tensor count = at::full({}, static_cast<double>(batch.steps[i]), batch.values[i].options());
      at::_fused_adamw_({batch.values[i]}, {batch.gradients[i]}, {exp_avg}, {exp_avg_sq}, /*max_exp_avg_sqs=*/{}, {count}, batch.lr,
                        options_.beta1, options_.beta2, batch.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
      CodedAverages::encode(first, exp_avg, batch.slots[i][0], batch.slots[i][1]);
      CodedAverages::encode(second, exp_avg_sq, batch.slots[i][2], batch.slots[i][3]);
    }
  }

 private:
  AdamWOptions options_;
  CodedAverages averages_;
};

}  // namespace

RulePtr adamw8bit(const AdamWOptions& options) { return std::make_shared<AdamW8bit>(options); }

}  // namespace burnish::optim
