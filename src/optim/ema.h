#pragma once
#include "optim/parameter.h"
#include "optim/state.h"

namespace burnish::optim {

/// The decay of the average after a number of steps: min(decay, (1 + step) / (10 + step)), as diffusers (training_utils.py, EMAModel) and
/// OneTrainer have it, so that the start is soon forgotten.
double ema_decay(double decay, int64_t step);

/// An exponential moving average of parameters, kept in fp32 on their devices; it starts at their present values. Parameters come with the
/// stores that their optimizer gave them, or are kept in `value`.
class Ema {
 public:
  explicit Ema(ParameterList parameters);

  /// average = decay * average + (1 - decay) * parameter. Not allowed while swapped in.
  void update(double decay);

  /// Puts the averages, rounded to nearest as each parameter is kept, in the parameters' place; their values are kept aside bit for bit.
  void swap_in();

  /// Puts the parameters back.
  void swap_out();

  bool swapped_in() const { return !kept_.empty(); }

  /// "<parameter>.ema", sharing storage with the averages.
  StateList state() const;

  /// Puts back what state() gave. Throws the data Error of load_into (optim/state.h), and then changes nothing.
  void load_state(const StateList& saved);

 private:
  ParameterList parameters_;
  std::vector<at::Tensor> averages_;
  std::vector<at::Tensor> kept_;  ///< the tensors of their stores while the averages are in their place
};

/// Puts the averages in the parameters' place for as long as it lives; does nothing without any.
class Averaged {
 public:
  explicit Averaged(Ema* ema) : ema_(ema) {
    if (ema_ != nullptr) ema_->swap_in();
  }
  ~Averaged() {
    if (ema_ != nullptr) ema_->swap_out();
  }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  Ema* ema_;
};

}  // namespace burnish::optim
