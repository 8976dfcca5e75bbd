#include "diffusion/training_grid.h"

#include <algorithm>
#include <cmath>

#include "diffusion/timestep_sampling.h"

namespace burnish::diffusion {
namespace {

constexpr int64_t kNumTimesteps = 1000, kNumTokens = 4096;

double bell(double sigma) {
  auto z = sigma - 0.5;
  return std::exp(-2.0 * z * z);
}

}  // namespace

std::vector<double> grid_of(const GridConfig& config, int64_t num_steps) {
  const double last = config.last > 0 ? config.last : 1.0 / static_cast<double>(num_steps);
  std::vector<double> sigmas;
  if (config.quantiles_of != nullptr) {
    for (int64_t i = num_steps; i > 0; --i)
      sigmas.push_back(sigma_at({.mode = config.quantiles_of}, static_cast<double>(i) / static_cast<double>(num_steps), kNumTokens));
    return sigmas;
  }
  for (int64_t i = 0; i < num_steps; ++i) {
    auto share = num_steps > 1 ? static_cast<double>(i) / static_cast<double>(num_steps - 1) : 0.0;
    sigmas.push_back(static_shift(config.shift, 1.0 + (last - 1.0) * share));
  }
  if (config.terminal > 0) stretch_to(config.terminal, sigmas);
  if (config.in_thousandths) {
    constexpr double kHalf = 0.5 + 1e-6;  // a half goes up, as it does in fp32
    for (auto& sigma : sigmas) sigma = std::floor(sigma * kNumTimesteps + kHalf) / kNumTimesteps;
  }
  return sigmas;
}

TrainingGrid::TrainingGrid(const GridConfig& config) : config_(config), sigmas_(grid_of(config, kNumTimesteps)) {
  for (auto sigma : sigmas_) lowest_ = std::min(lowest_, bell(sigma));
  for (auto sigma : sigmas_) sum_ += bell(sigma) - lowest_;
}

double TrainingGrid::loss_weight(double sigma) const { return (bell(sigma) - lowest_) * static_cast<double>(sigmas_.size()) / sum_; }

}  // namespace burnish::diffusion
