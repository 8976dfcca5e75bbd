#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "optim/parameter.h"
#include "optim/state.h"

namespace burnish::optim {

/// Numbers that a rule keeps for one parameter, and for how many elements of the value each of them is: 1, a block's length, or 0 when all
/// of them belong to the value as a whole.
struct Slot {
  std::string name;
  at::Tensor tensor;
  int64_t elements = 1;
};

/// A batch that a rule updates at once: stretches of parameters, or all of them, that share a device, a rate and a weight decay. Entry i of
/// every list is of one stretch; tensors of values and gradients are flat and fp32.
struct Batch {
  std::vector<at::Tensor> values, gradients;
  std::vector<std::vector<at::Tensor>> slots;  ///< [i][slot]: the numbers for that stretch; flat unless Slot::elements is 0
  std::vector<at::IntArrayRef> shapes;         ///< shapes of the whole parameters
  std::vector<int64_t> steps;                  ///< step counts of the parameters, from 1
  std::vector<at::Tensor> sums;                ///< sums of the parameters, which rules add to: fp64 [UpdateRule::num_sums] on their device
  double lr = 0;                               ///< the step's rate times the parameters' factor
  double lr_factor = 1;                        ///< the parameters' factor on the learning rate
  double weight_decay = 0;

  /// Collects slot number `index` of all stretches.
  std::vector<at::Tensor> slot(size_t index) const;
};

/// A rule by which parameters follow from their gradients: what is kept for each, and one update. A rule knows nothing of stores,
/// precisions or rounding; Optimizer gives it fp32 tensors and takes them back.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  /// Makes what the rule keeps for a parameter, on its device; exact_value has the numbers that the parameter starts with.
  virtual std::vector<Slot> slots(const NamedParameter& parameter) const = 0;
  /// A parameter of `numel` elements is cut at multiples of this many; numel when a rule needs all of it.
  virtual int64_t granule(int64_t /*numel*/) const { return 1; }
  /// Tells whether `apply` is one operator without temporaries: then fp32 values are not cut at all.
  virtual bool is_fused() const { return false; }

  /// Starts a step at the rate `lr`, before parameters' factors.
  virtual void begin(double /*lr*/) {}
  /// Tells whether every batch has to be looked at before the first is updated. Then each step calls `look` for all of them, `decide`, and
  /// `apply` for all of them, and single parameters cannot be updated inside backward.
  virtual bool looks_first() const { return false; }
  /// Updates slots and what they add up to; leaves values as they are.
  virtual void look(const Batch& /*batch*/) {}

  /// Returns how many numbers a step adds up over parameters (Batch::sums): in `look`, or in `apply` where the rule does not look first.
  virtual int64_t num_sums() const { return 0; }
  /// Takes them, of all parameters together, fp64 [num_sums]: before the first `apply`, or after the last where it does not look first.
  virtual void decide(const at::Tensor& /*sums*/) {}
  /// Updates a batch's values and slots in place.
  virtual void apply(const Batch& batch) = 0;

  /// Tells whether a model should be judged, shown and saved by another value than the one that gradients are taken at.
  virtual bool averages() const { return false; }
  /// Computes the average, where there is one; `value` and the slots are flat and whole.
  virtual at::Tensor average(const at::Tensor& /*value*/, const std::vector<at::Tensor>& /*slots*/) const { return {}; }
  /// The factor on `lr` by a rule that finds its rate itself, a 0-dim fp64 tensor; undefined for 1.
  virtual at::Tensor learned_rate() const { return {}; }
  /// Lists what the rule keeps for all parameters together, sharing storage.
  virtual StateList state() const { return {}; }
};

using RulePtr = std::shared_ptr<UpdateRule>;

/// fp32 zeros on the parameter's device; of its shape, when none is given.
at::Tensor zeros_for(const NamedParameter& parameter, at::OptionalIntArrayRef shape = {});

}  // namespace burnish::optim
