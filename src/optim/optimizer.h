#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "optim/gradients.h"
#include "optim/lr_schedule.h"
#include "optim/parameter.h"
#include "optim/state.h"

namespace burnish::optim {

/// An optimizer's name and numbers; the defaults are those of torch.optim.AdamW.
struct OptimizerOptions {
  std::string name = "adamw";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;             ///< decoupled: parameters shrink by lr * weight_decay before the update
  Rounding rounding = Rounding::nearest;  ///< of bf16 parameters; other dtypes round to nearest
  uint64_t seed = 0;                      ///< of stochastic rounding
};

/// Updates a list of parameters from their gradients.
class Optimizer {
 public:
  explicit Optimizer(ParameterList parameters) : parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with the gradients now in `value.grad()`; a parameter without a gradient is left alone, its step count too.
  virtual void step(double lr) = 0;

  /// Everything beside the values that is needed to go on bit for bit, named after the parameters: "<parameter>.exp_avg",
  /// "<parameter>.step", ...
  virtual StateList state() const = 0;

  /// Puts back what state() gave. Throws the data Error of load_into (optim/state.h), and then changes nothing.
  virtual void load_state(const StateList& saved) = 0;

  /// Makes every gradient undefined, which frees its memory.
  void zero_grad();

  /// All have their stores.
  const ParameterList& parameters() const { return parameters_; }

 protected:
  ParameterList parameters_;
};

/// Throws a config Error for an unknown name (naming the choices) or numbers out of range.
void check(const OptimizerOptions& options);

/// After `check`; also a config Error for parameters that are not floating point.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterList parameters);

}  // namespace burnish::optim
