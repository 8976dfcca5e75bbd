#pragma once
#include "optim/ema.h"

namespace burnish::train {

/// A store of the pictures that a run drew itself to learn from them, and the policy that drew them.
struct OwnDrawings {
  explicit OwnDrawings(optim::ParameterList parameters) : old_policy(std::move(parameters)) {}

  /// Returns a number that was kept with what was drawn; -1 where it was not.
  int64_t number(const std::string& name) const;
  /// Returns a tensor that was kept; std::logic_error where it was not.
  const at::Tensor& tensor(const std::string& name) const;
  /// Keeps a tensor or a number under a name, in place of what that was.
  void keep(const std::string& name, const at::Tensor& value);
  void keep(const std::string& name, int64_t number);

  optim::Ema old_policy;        ///< the average of what trains that draws
  optim::StateList drawn = {};  ///< what was drawn last, on the CPU, and of which round it is
};

}  // namespace burnish::train
