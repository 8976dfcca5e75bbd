#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "memory/copy_queue.h"

namespace burnish::memory {

/// A group of processes among which weights are divided. All of them ask for one thing after another, in one order.
class WeightGroup {
 public:
  virtual ~WeightGroup() = default;
  virtual int64_t number() const = 0;
  virtual int64_t count() const = 0;
  /// The device where tensors lie that travel.
  virtual c10::Device device() const = 0;
  /// `all` [count, n] gets the `mine` [n] of each, by number; both on `device`.
  virtual std::shared_ptr<CopyQueue::Arrival> gather(const at::Tensor& mine, const at::Tensor& all) = 0;
  /// `bytes`, on `device`, become those of process `from`.
  virtual std::shared_ptr<CopyQueue::Arrival> broadcast(const at::Tensor& bytes, int64_t from) = 0;
};

/// A function that names the process that alone updates a weight of a block and keeps all of it; nothing where the weight is frozen.
using OwnerOf = std::function<std::optional<int64_t>(const std::string& name)>;

}  // namespace burnish::memory
