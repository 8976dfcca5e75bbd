#pragma once
#include "optim/parameter.h"
#include "optim/state.h"

namespace burnish::optim {

/// The decay of the average after a number of steps: min(decay, (1 + step) / (10 + step)), as diffusers (training_utils.py, EMAModel) and
/// OneTrainer have it, so that the start is soon forgotten.
double ema_decay(double decay, int64_t step);

/// An exponential moving average of the parameters that this process owns, kept in fp32 on their devices; it starts at their present
/// values. Parameters come with the stores that their optimizer gave them, or are kept in `value`. Averaged (optim/averaged.h) puts it in
/// their place.
class Ema {
 public:
  explicit Ema(ParameterList parameters);

  /// average = decay * average + (1 - decay) * parameter.
  void update(double decay);

  /// The average of the parameter at that index of the list, fp32 of its shape; undefined where it is not owned.
  const at::Tensor& average(size_t index) const { return averages_.at(index); }

  /// Lists the averages as "<parameter>.ema", sharing storage with them.
  StateList state() const;

  /// Puts back what state() gave. Throws the data Error of load_into (optim/state.h), and then changes nothing.
  void load_state(const StateList& saved);

 private:
  ParameterList parameters_;
  std::vector<at::Tensor> averages_;
};

}  // namespace burnish::optim
