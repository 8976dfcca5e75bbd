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
  BlockOwners owners = {};  ///< of what trains of them, where processes divide them
};

/// What each of several processes keeps of the trained parameters, beside the weights that layers compute with: the optimizer's states,
/// averages and exact values of those that it owns, which it alone updates, from stage 2 on their gradients, and in stage 3 the weights
/// themselves of those that lie in the denoiser's blocks.
class Ownership {
 public:
  /// Among the processes of a row; other rows do the same with the same numbers. `divided`: of each denoiser the blocks that processes
  /// divide; none in lower stages.
  Ownership(std::shared_ptr<const dist::Mesh> mesh, const optim::ParameterList& parameters, int64_t stage,
            const std::vector<PagedBlocksOf>& divided);

  /// Whether this process writes what is the same on all.
  bool is_first() const { return writes_part() && mesh_->row().rank() == 0; }
  /// Whether it writes what it owns: one of those that own the same does.
  bool writes_part() const { return mesh_->is_first_row(); }
  /// Those that divide.
  dist::Group& row() const { return mesh_->row(); }
  bool divides_gradients() const { return stage_ >= 2; }
  /// By parameter.
  const std::vector<int64_t>& owners() const { return owners_; }
  /// Whether its owner alone has all of the weight of that parameter.
  bool is_divided(size_t parameter) const { return is_divided_[parameter]; }
  /// Says which parameters this process owns, and gives those that it has nothing of stores that say so.
  void mark(optim::ParameterList& parameters) const;
  /// Has none of the weights of blocks used that came from their owners before.
  void forget() const;

  // All processes of a row have to come to these.

  /// Brings the weights of all parameters from their owners; those of blocks come when their block is next run.
  void share(const optim::ParameterList& parameters) const;
  /// Replaces numbers, fp64 on the CPU, by their sums over the row.
  void sum(const at::Tensor& numbers) const;
  /// optim::gradient_norm where gradients are divided.
  at::Tensor gradient_norm(const optim::ParameterList& parameters) const;
  /// optim::kept_value in `dtype` of the parameter with that number, from its owner where no other knows it exactly: in a divided block,
  /// and where it keeps more than its weights when they are rounded so.
  at::Tensor exact_value(const optim::ParameterList& parameters, size_t number, optim::Rounding rounding, c10::ScalarType dtype) const;

 private:
  std::shared_ptr<const dist::Mesh> mesh_;
  std::vector<int64_t> owners_;
  std::vector<bool> is_divided_;
  int64_t stage_;
  std::vector<std::shared_ptr<memory::Pager>> pagers_;
};

}  // namespace burnish::train
