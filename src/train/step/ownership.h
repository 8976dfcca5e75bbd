#pragma once
#include "dist/mesh.h"
#include "dist/owners.h"
#include "memory/paging.h"
#include "optim/averaged.h"
#include "train/step/block_owners.h"

namespace burnish::train {

/// The blocks of a denoiser that are not all on the device.
struct PagedBlocksOf {
  std::shared_ptr<memory::Pager> pager = {};
  BlockOwners owners = {};  ///< owners of the blocks' trained weights, where processes divide them
};

/// Divides the trained parameters among several processes, beside the weights that layers compute with: each process alone updates the
/// parameters that it owns, and keeps their optimizer states, averages and exact values. From stage 2 on it alone keeps their gradients,
/// and in stage 3 also the weights that lie in the denoiser's blocks.
class Ownership {
 public:
  /// Divides parameters among the processes of a row; other rows divide them in this way too, with equal numbers. `divided` has the blocks
  /// of each denoiser that processes divide; none in lower stages.
  Ownership(std::shared_ptr<const dist::Mesh> mesh, const optim::ParameterList& parameters, int64_t stage,
            const std::vector<PagedBlocksOf>& divided);

  /// Tells whether this process writes what is equal on all processes.
  bool is_first() const { return writes_part() && mesh_->row().rank() == 0; }
  /// Tells whether it writes what it owns: of the processes that own equal values one does.
  bool writes_part() const { return mesh_->is_first_row(); }
  /// Returns the row of processes that divide parameters.
  dist::Group& row() const { return mesh_->row(); }
  bool divides_gradients() const { return stage_ >= 2; }
  /// Returns the owner of each parameter.
  const std::vector<int64_t>& owners() const { return owners_; }
  /// Tells whether the owner of that parameter alone has all of its weight.
  bool is_divided(size_t parameter) const { return is_divided_[parameter]; }
  /// Says which parameters this process owns. Parameters of which it has nothing get stores that say so.
  void mark(optim::ParameterList& parameters) const;
  /// Stops the use of blocks' weights that came from their owners before.
  void forget() const;

  // All processes of a row have to come to these.

  /// Brings the weights of all parameters from their owners; weights of blocks come when their block is next run.
  void share(const optim::ParameterList& parameters) const;
  /// Replaces numbers, fp64 on the CPU, by their sums over the row.
  void sum(const at::Tensor& numbers) const;
  /// Computes optim::gradient_norm where gradients are divided.
  at::Tensor gradient_norm(const optim::ParameterList& parameters) const;
  /// Returns optim::kept_value in `dtype` of the parameter with that number. It comes from the owner where no other process knows it
  /// exactly: in a divided block, and where `rounding` keeps more of a parameter than its weights.
  at::Tensor exact_value(const optim::ParameterList& parameters, size_t number, optim::Rounding rounding, c10::ScalarType dtype) const;

 private:
  std::shared_ptr<const dist::Mesh> mesh_;
  std::vector<int64_t> owners_;
  std::vector<bool> is_divided_;
  int64_t stage_;
  std::vector<std::shared_ptr<memory::Pager>> pagers_;
};

}  // namespace burnish::train
