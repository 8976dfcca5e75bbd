#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/alike.h"
#include "memory/profile.h"
#include "memory/recomputable_part.h"
#include "memory/recorder.h"
#include "nn/block.h"

namespace burnish::memory {

struct Books;
class Repeats;

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
  /// Names what `block` takes after it, forward and in backward. Whatever runs the block goes on doing so. `trained` are all tensors in it
  /// that take gradients, by their names in the block: blocks that are alike have alike ones, in one order.
  void watch(nn::Block& block, const std::string& name, const TrainedTensors& trained = {});

  /// Has bodies of watched blocks that are alike gone through once, from here on: what that took is written down again for the others
  /// (memory/repeats.h), and for those of further dry runs that stand for the same device and are given the same `known`. Not for a trace.
  void repeat(std::shared_ptr<KnownBodies> known);
  /// Tells whether what was written down again is what those blocks would have taken, as far as that shows: where it does not, a dry run
  /// that repeats nothing is needed. True where nothing is repeated.
  bool is_exact() const;

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
  class Counting;
  class OnPaper;
  class Watch;
  class Tracer;
  std::shared_ptr<Books> books_;
  std::unique_ptr<Repeats> repeats_;  ///< null where each block is gone through
};

}  // namespace burnish::memory
