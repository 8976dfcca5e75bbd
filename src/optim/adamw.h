#pragma once
#include <vector>

#include "optim/optimizer.h"

namespace burnish::optim {

/// AdamW (Loshchilov and Hutter, 2019), equal to torch.optim.AdamW on fp32 parameters.
/// The averages are fp32 for every parameter dtype; bf16 and fp16 parameters are updated in fp32, in batches of bounded size, and
/// rounded once, as OptimizerOptions::rounding says. Random draws depend on the seed, the parameter's step and its place in the list
/// alone. Remainders are int16 and part of the state.
class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, ParameterList parameters);

  void step(double lr) override;
  StateList state() const override;
  void load_state(const StateList& saved) override;
  at::Tensor exact_value(size_t place) const override;

 private:
  /// Tensors of one device that go through one fused call; what is not fp32 is a batch of fp32 copies.
  struct Batch;

  void update(Batch& batch, double lr);
  void update_through_copies(Batch& batch, double lr);

  OptimizerOptions options_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;
  std::vector<at::Tensor> remainder_;  ///< undefined for parameters without
  std::vector<int64_t> num_steps_;     ///< of each parameter, as torch counts them
};

}  // namespace burnish::optim
