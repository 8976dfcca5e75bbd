#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace burnish::memory {

/// Holds what bodies of blocks are known to take; no_bodies makes one that knows nothing yet.
struct KnownBodies;
std::shared_ptr<KnownBodies> no_bodies();

/// Is thrown by a block whose body cannot stand by itself: a dry run that repeats nothing is needed.
struct NotRepeatable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Tensors of a block that take gradients, by name.
using TrainedTensors = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace burnish::memory
