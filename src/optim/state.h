#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace burnish::optim {

/// Tensors to save, in a stable order; they share storage with the live ones.
using StateList = std::vector<std::pair<std::string, at::Tensor>>;

/// Throws what load_into would throw, and changes nothing.
void check_state(const std::string& what, const StateList& live, const StateList& saved, bool is_all = true);

/// Copies `saved` into the tensors of `live` by name, converting device and dtype. Every name must be on both sides with one shape;
/// otherwise nothing is copied and a data Error lists the first few missing, unexpected and differently shaped names with their counts.
/// Without `is_all` further names in `saved` are of what other processes own.
void load_into(const std::string& what, const StateList& live, const StateList& saved, bool is_all = true);

}  // namespace burnish::optim
