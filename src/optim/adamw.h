#pragma once
#include <vector>

#include "optim/optimizer.h"

namespace burnish::optim {

/// AdamW (Loshchilov and Hutter, 2019), equal to torch.optim.AdamW on fp32 parameters.
/// The averages are fp32 for every parameter; values that are not plain fp32 are read from their stores, updated in fp32, in batches of
/// bounded size, and written back rounded once. Random draws depend on the seed, the parameter's step and its place in the list alone.
class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, ParameterList parameters);

  void step(double lr) override;
  StateList state() const override;
  void load_state(const StateList& saved) override;

 private:
  /// Flat tensors of one device that go through one fused call; what is not fp32 is a batch of fp32 copies.
  struct Batch;

  void update(Batch& batch, double lr);
  void update_through_copies(Batch& batch, double lr);

  OptimizerOptions options_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;
  std::vector<int64_t> num_steps_;  ///< of each parameter, as torch counts them
};

}  // namespace burnish::optim
