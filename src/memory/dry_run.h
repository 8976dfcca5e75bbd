#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memory/profile.h"
#include "memory/recorder.h"
#include "nn/block.h"

namespace burnish::memory {

/// A part of forward that backward can compute again: a watched block, or values of nn::recomputed inside of it.
struct RecomputablePart {
  std::string block;
  std::optional<size_t> call = {};  ///< the call of nn::recomputed in the block, by number; none: the block
  size_t first = 0, end = 0;        ///< the blocks of memory taken in it
  std::set<size_t> inputs = {}, outputs = {};
  double multiplications = 0;  ///< multiplications of products, convolutions and attention
};

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

  /// Begins a trace: from here on watched blocks keep all that autograd keeps, as if nothing were computed again, and each run of theirs
  /// with gradients is written down with the values in it.
  void trace();
  const std::vector<RecomputablePart>& parts() const;

  /// Records by running once, and replays nothing: what is taken meanwhile is the recording's.
  std::unique_ptr<Recorder> recorder();

  /// The blocks of memory taken so far, in their order. Their places are names that the dry run keeps.
  const Allocations& allocations() const;
  /// The number of the block that a tensor's storage is; nothing for a tensor from elsewhere.
  std::optional<size_t> number_of(const at::Tensor& tensor) const;
  /// Events so far: blocks taken or freed.
  int64_t now() const;

 private:
  struct Books;
  class Counting;
  class OnPaper;
  class Watch;
  class Tracer;
  std::shared_ptr<Books> books_;
};

}  // namespace burnish::memory
