#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/value_store.h"

namespace burnish::optim {

/// A trained tensor and its name in saved states. `value` has its shape and takes its gradient. The numbers are in `value` too, sharing
/// storage with the model's, unless `store` says otherwise.
struct NamedParameter {
  std::string name;
  at::Tensor value;
  double lr_factor = 1;                         ///< factor on the step's learning rate
  std::shared_ptr<ValueStore> store = nullptr;  ///< where the numbers are kept; null: in `value`
  std::optional<double> weight_decay = {};      ///< none: the optimizer's
  bool owned = true;                            ///< whether this process updates it, and keeps more of it than its weights
};

using ParameterList = std::vector<NamedParameter>;

/// Tells whether this process owns all of them.
bool owns_all(const ParameterList& parameters);

/// Gives every parameter without a store one over its `value` (see store_in); of one that is not owned, the weights alone.
void complete(ParameterList& parameters, Rounding rounding);

/// Returns all bits that are kept of the value, on its device: the tensor itself, or a copy in fp32 where ValueStore::tensor has none. To
/// be called after `complete`.
at::Tensor exact_value(const NamedParameter& parameter);

/// exact_value for whoever keeps it: the one tensor that holds the value, wherever that is, or else a copy in fp32.
at::Tensor kept_value(const NamedParameter& parameter);

/// Raises the version of `value`, by which what is derived from a parameter (DoRA's norms) knows that its numbers changed; some operators
/// write without doing so, and codes are not in `value` at all.
void mark_changed(const NamedParameter& parameter);

/// The tensors that make up the values of owned parameters, named after them; what a saved state needs of them. After `complete`.
StateList values(const ParameterList& parameters);

}  // namespace burnish::optim
