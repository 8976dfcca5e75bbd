#pragma once
#include <memory>
#include <optional>
#include <string>

#include "memory/profile.h"
#include "nn/block.h"

namespace burnish::memory {

/// While it lives, tensors on the meta device stand for tensors of another device, and what is taken of its memory is written down: a real
/// step on tensors without numbers tells what the step takes. One lives at a time.
///
/// Operators that libtorch has no meta kernel for are given one, which allocates what its kernel on the CPU allocates.
class DryRun {
 public:
  explicit DryRun(c10::Device stands_for);
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  /// Names what goes on from here on.
  void enter(const std::string& place);
  /// Names what `block` takes after it, forward and in backward. Whatever runs the block goes on doing so.
  void watch(nn::Block& block, const std::string& name);

  /// The blocks of memory taken so far, in their order.
  const Allocations& allocations() const;
  /// The number of the block that a tensor's storage is; nothing for a tensor from elsewhere.
  std::optional<size_t> number_of(const at::Tensor& tensor) const;
  /// Events so far: blocks taken or freed.
  int64_t now() const;

 private:
  struct Books;
  class Counting;
  class Watch;
  std::shared_ptr<Books> books_;
};

}  // namespace burnish::memory
