#pragma once
#include "optim/update_rule.h"

namespace burnish::optim {

// What Prodigy's estimates of a rate have in common (Mishchenko and Defazio 2023, arXiv 2306.06101). Sums are 0-dim fp64 tensors on the
// parameters' device, so that no step waits for one.

/// Divisors are at least this number.
constexpr double kSmallest = 1e-300;

at::Tensor fp64(double number, const at::Device& device = at::kCPU);
/// Reads the number that fp64 made on the CPU, which waits for no device.
inline double number_of(const at::Tensor& on_cpu) { return *on_cpu.const_data_ptr<double>(); }
/// Converts a number to fp32, as a factor of fp32 tensors.
at::Tensor fp32(const at::Tensor& number);

/// "p0", where the parameter started, and "s", a weighted sum of its gradients; both of every slice_p-th element.
std::vector<Slot> distance_slots(const NamedParameter& parameter, int64_t slice_p);

/// The weights with which a step adds to the sums.
struct DistanceWeights {
  int64_t slice_p;
  double beta3;
  at::Tensor weight;    ///< the step's weight in the numerator, 0-dim
  at::Tensor s_weight;  ///< the weight of the step's gradient in s, 0-dim
};

/// Adds to a batch's sums weight * <gradient, p0 - position> and the 1-norm of s, and brings s up to date. `positions` has the batch's
/// stretches; p0 and s are its first two slots.
void add_distances(const Batch& batch, const std::vector<at::Tensor>& positions, const DistanceWeights& weights);
constexpr int64_t kNumDistanceSums = 2;

}  // namespace burnish::optim
