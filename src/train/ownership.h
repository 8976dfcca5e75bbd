#pragma once
#include "dist/owners.h"
#include "dist/world.h"
#include "optim/optimizer.h"
#include "train/settings.h"

namespace burnish::train {

/// What each of several processes keeps of the trained parameters, beside the weights that layers compute with: the optimizer's states,
/// averages and exact values of those that it owns, which it alone updates, and in stage 2 their gradients alone.
class Ownership {
 public:
  /// `world` must outlive this.
  Ownership(const dist::World& world, std::vector<int64_t> owners, int64_t stage)
      : world_(world), owners_(std::move(owners)), stage_(stage) {}

  /// Whether this process writes what is the same on all.
  bool is_first() const { return world_.is_first(); }
  bool divides_gradients() const { return stage_ >= 2; }
  /// By parameter.
  const std::vector<int64_t>& owners() const { return owners_; }
  /// Says which parameters this process owns.
  void mark(optim::ParameterList& parameters) const;

  // All processes have to come to these.

  /// Brings the weights of all parameters from their owners.
  void share(const optim::ParameterList& parameters) const;
  /// Replaces numbers, fp64 on the CPU, by their sums over the processes.
  void sum(const at::Tensor& numbers) const;
  /// optim::gradient_norm where gradients are divided.
  at::Tensor gradient_norm(const optim::ParameterList& parameters) const;
  /// optim::kept_value in `dtype`, on the first process alone, of the parameters that keep more than their weights when they are rounded
  /// so; the rest is undefined.
  std::vector<at::Tensor> exact_values(const optim::ParameterList& parameters, optim::Rounding rounding, c10::ScalarType dtype) const;

 private:
  const dist::World& world_;
  std::vector<int64_t> owners_;
  int64_t stage_;
};

/// Null where each process keeps all.
std::unique_ptr<Ownership> ownership_of(const optim::ParameterList& parameters, int64_t zero_stage, const dist::World& world);

}  // namespace burnish::train
