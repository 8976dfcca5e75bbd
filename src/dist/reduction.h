#pragma once
#include <memory>
#include <vector>

#include "dist/group.h"

namespace burnish::dist {

/// Options of how the gradients of several processes become one.
struct ReductionOptions {
  /// Whether sums are taken in one order, a balanced tree over the batches of a step as they would be run one after the other by a single
  /// process: then they have equal bits for every number of processes that is a power of two, and for one. Else the order is the backend's.
  bool ordered = false;
  int64_t bucket_bytes = int64_t{16} << 20;  ///< gradients travel together in so many, and the last of backward in fewer (bucket_limit)
  /// The process that alone keeps a parameter's gradient, by parameter (dist/owners.h); none: all keep all.
  std::vector<int64_t> owners = {};
  /// The processes that run the same batches together, each having its part of their gradients, which is summed ahead of all else where
  /// sums are ordered: so bits are equal for every number of such groups that is a power of two. Null: there are no such processes.
  std::shared_ptr<Group> places = nullptr;
  Group* column = nullptr;  ///< the owners of these parameters in other groups, with whom they sum; null: there are no others
};

/// Sums the gradients of parameters over all processes, each process having run its own batches. Sums are fp32; the results are put back in
/// the gradient's dtype. Where gradients have owners they travel after every backward, and the others' are freed as they do, unless sums
/// are ordered. A parameter that no process has a gradient for keeps none; where only some have one it counts as zero elsewhere.
class Reduction {
 public:
  virtual ~Reduction() = default;
  /// Begins a pass: to be called before every backward. `is_last`: of a step. Backward adds to gradients in every pass of a step of one
  /// kind as often as in the first.
  virtual void begin(bool /*is_last*/, int64_t /*kind*/ = 0) {}
  /// Ends a pass: to be called after every backward. `ends_unit`: the last of a batch that the processes have shared out.
  virtual void ran(bool /*ends_unit*/) {}
  /// Ends a step, after its last backward: the gradients are summed when it returns.
  virtual void finish() = 0;
  /// Tells whether all that this process itself had in the step was finite, whatever the sums are.
  virtual bool was_finite() const = 0;
};

/// Makes the reduction of `parameters`, leaves of autograd in one order on all processes, which with the group must outlive it. Null where
/// there is nothing to do: for one process, unless sums are ordered.
std::unique_ptr<Reduction> make_reduction(Group& group, std::vector<at::Tensor> parameters, const ReductionOptions& options);

/// The most bytes that travel together, beginning with what backward gives last: the last buckets are small, since nothing is left to
/// compute while they travel, and each before is twice as large until all are `bucket_bytes`.
int64_t bucket_limit(int64_t bucket_bytes, size_t number_from_end);

/// Sums numbers over all processes, in fp64.
std::vector<double> sum_of(Group& group, const std::vector<double>& numbers);

}  // namespace burnish::dist
