#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "memory/host_store.h"
#include "optim/gradients.h"
#include "optim/lr_schedule.h"
#include "optim/parameter.h"
#include "optim/state.h"
#include "optim/update_rule.h"

namespace burnish::optim {

/// An optimizer's name and numbers.
struct OptimizerOptions {
  std::string name = "adamw";
  double weight_decay = 0.01;             ///< decoupled: parameters shrink by lr * weight_decay
  Rounding rounding = Rounding::nearest;  ///< how bf16 parameters are rounded; other dtypes round to nearest
  uint64_t seed = 0;                      ///< seed of stochastic rounding
  std::string args = {};                  ///< comma list of key=value: the numbers of that optimizer (docs/optimizers.md)
  bool cautious = false;                  ///< leaves out of updates what goes against the gradient (optim/rules.h)
};

/// Returns the words that an optimizer's name may be.
std::vector<std::string> optimizers();

/// Updates a list of parameters from their gradients by update rules.
///
/// Values that are not plain fp32 are read from their stores, updated in fp32, in batches of bounded size, and written back rounded once.
/// Random draws depend on the seed, the parameter's step and its place in the list alone. What was written is marked as changed
/// (mark_changed of optim/parameter.h), whatever the rule does. Of a parameter that another process owns nothing is kept, and it is left
/// alone.
class Optimizer {
 public:
  /// `rules` has one for each parameter; parameters may share them. All parameters have their stores. With `host` what rules keep is there,
  /// and on the device for one batch at a time.
  Optimizer(ParameterList parameters, std::vector<RulePtr> rules, uint64_t seed, std::shared_ptr<memory::HostStore> host = nullptr);
  Optimizer(const Optimizer&) = delete;
  /// Takes the function that replaces numbers, fp64 on the CPU, by their sums over the processes, where others own parameters. All of them
  /// come to it in every step of rules that add something up.
  void set_sum(std::function<void(const at::Tensor&)> sum) { sum_ = std::move(sum); }
  Optimizer& operator=(const Optimizer&) = delete;

  /// Takes a step with the gradients now in `value.grad()`; a parameter without a gradient is left alone, its step count too.
  void step(double lr);

  /// Begins a step in parts, for gradients that are not to be there all at once: `begin`, `update` of single parameters as soon as their
  /// gradients are there, in any order, and `finish`, which updates the others that have one.
  void begin(double lr);
  /// Updates one parameter; not to be called when `needs_all_gradients`.
  void update(size_t index);
  void finish();
  /// Tells whether the step that was begun last has updated this parameter.
  bool was_updated(size_t index) const { return members_.at(index).updated; }
  /// Tells whether an update depends on the gradients of all parameters.
  bool needs_all_gradients() const;

  /// Everything beside the values that is needed to go on bit for bit, named after the parameters: "<parameter>.exp_avg",
  /// "<parameter>.step", ...
  StateList state() const;
  /// Lists what of the state belongs to no parameter, and is equal on all processes.
  StateList common_state() const;

  /// Puts back what state() gave. Throws the data Error of load_into (optim/state.h), and then changes nothing.
  void load_state(const StateList& saved);

  /// Tells whether a rule averages (UpdateRule::average).
  bool averages() const;
  /// The value to judge, show and save a parameter by, fp32 of its shape, where its rule averages; otherwise undefined, and likewise of a
  /// parameter that is not owned.
  at::Tensor average(size_t index) const;
  /// The factor on the step's rate by a rule that finds its rate itself; undefined for 1.
  at::Tensor learned_rate() const;

  /// Makes every gradient undefined, which frees its memory.
  void zero_grad();

  /// The parameters, all of which have their stores.
  const ParameterList& parameters() const { return parameters_; }

 private:
  struct Member {
    size_t rule;  ///< index of the parameter's rule in rules_
    std::vector<Slot> slots;
    int64_t num_steps = 0;
    bool updated = false;  ///< whether the step under way has updated it
  };
  struct Pending;
  /// Rule, whether values are copies, device, rate factor, weight decay.
  using Key = std::tuple<size_t, bool, std::string, double, double>;
  using Batches = std::map<Key, Pending>;
  /// The purpose of a pass over the parameters: what it does with each batch.
  enum class Use { look, apply };

  bool is_due(size_t index) const;
  void update(const std::vector<size_t>& indices);
  void add(size_t index, Use use, Batches& batches);
  void run(const Key& key, Use use, Pending& pending);
  void pass(Use use, const std::vector<size_t>& indices);
  void decide(bool looks_first);

  ParameterList parameters_;
  std::vector<RulePtr> rules_;    ///< each once
  std::vector<at::Tensor> sums_;  ///< sums of a rule's parameters in the step under way, [parameters, num_sums]; undefined for none
  std::function<void(const at::Tensor&)> sum_;
  std::vector<Member> members_;
  uint64_t seed_;
  std::shared_ptr<memory::HostStore> host_;
  double lr_ = 0;
};

/// Throws a config Error for an unknown name (naming the choices), unknown keys of args or numbers out of range.
void check(const OptimizerOptions& options);

/// Checks the options, the schedule, and the two and the rate together: a config Error for a decaying schedule beside schedule-free
/// averages or Adafactor's relative steps, a warning for a rate far from 1 where the optimizer finds the rate itself.
void check(const OptimizerOptions& options, const ScheduleOptions& schedule, double learning_rate);

/// Tells whether the optimizer averages (Optimizer::average), so that a moving average beside it would be one too many.
bool is_schedule_free(const OptimizerOptions& options);

/// Tells what Optimizer::needs_all_gradients will say of an optimizer of these options.
bool needs_all_gradients(const OptimizerOptions& options);

/// Makes an optimizer of options that were checked; a config Error for parameters that are not floating point. `host`: see Optimizer.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterList parameters,
                                          std::shared_ptr<memory::HostStore> host = nullptr);

}  // namespace burnish::optim
