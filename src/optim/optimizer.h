#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace burnish::optim {

struct NamedParameter {
  std::string name;
  at::Tensor value;
};
using ParameterList = std::vector<NamedParameter>;
using StateList = std::vector<std::pair<std::string, at::Tensor>>;

struct OptimizerOptions {
  std::string name = "adamw";
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;
};

/// Updates parameters from their gradients.
class Optimizer {
 public:
  explicit Optimizer(ParameterList parameters) : parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;
  /// One update at learning rate `lr`. Parameters without a gradient are left alone.
  virtual void step(double lr) = 0;
  /// Everything but the parameters that the next step depends on.
  virtual StateList state() const = 0;
  /// Restores what `state` gave; a data Error names what is missing or of another shape.
  virtual void load_state(const StateList& state) = 0;

  void zero_grad();
  const ParameterList& parameters() const { return parameters_; }

 protected:
  ParameterList parameters_;
};

/// The optimizer named in `options`; a config Error lists the choices.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterList parameters);

/// The 2-norm over all gradients, summed in fp64; missing gradients count as zero.
double gradient_norm(const ParameterList& parameters);

/// Scales all gradients by max_norm / (norm + 1e-6) where that is below 1 (torch's clip_grad_norm_); max_norm 0 never clips.
void clip_gradients(const ParameterList& parameters, double norm, double max_norm);

/// The learning rate's course over a run.
struct ScheduleOptions {
  std::string name = "constant";  ///< constant, linear, cosine
  int64_t warmup_steps = 0;       ///< rises linearly: step s (from 0) of w has (s + 1) / w of the full rate
  int64_t max_steps = 0;
};

/// A config Error when the name is unknown.
void check(const ScheduleOptions& options);

/// The factor on the learning rate at `step` (from 0); linear and cosine fall to 0 at max_steps.
double lr_factor(const ScheduleOptions& options, int64_t step);

}  // namespace burnish::optim
