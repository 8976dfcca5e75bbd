#pragma once
#include <cstdint>
#include <vector>

namespace burnish::diffusion {

/// The sigmas that DiffSynth-Studio trains a family on (its FlowMatchScheduler, diffusion/flow_match.py; fp32 there, fp64 here): a line
/// from 1 down to `last`, shifted by static_shift, stretched so that the last one is `terminal`. The defaults are those of FLUX.1.
struct GridConfig {
  double shift = 3.0;           ///< s of static_shift; an exponential shift by mu has s = e^mu
  double last = 0.003 / 1.002;  ///< where the line ends, before the shift; 0: one step above 0
  double terminal = 0;          ///< 0: nothing is stretched
  bool in_thousandths = false;  ///< whether sigmas are brought to whole thousandths
  /// The timestep_sampling of which the grid has quantiles, for a picture of 1024 by 1024 in tokens of 16 by 16 pixels, in place of all
  /// that; null: none.
  const char* quantiles_of = nullptr;
};

/// Makes the grid for a number of steps, both ends included; a single step is at 1.
std::vector<double> grid_of(const GridConfig& config, int64_t num_steps);

/// The grid of 1,000 steps, and the loss weights that follow from it.
class TrainingGrid {
 public:
  explicit TrainingGrid(const GridConfig& config);
  const GridConfig& config() const { return config_; }
  const std::vector<double>& sigmas() const { return sigmas_; }
  /// exp(-2 (sigma - 0.5)^2), less its smallest value on the grid, scaled to mean 1 over the grid: zero at 1.
  double loss_weight(double sigma) const;

 private:
  GridConfig config_;
  std::vector<double> sigmas_;
  double lowest_ = 1, sum_ = 0;
};

}  // namespace burnish::diffusion
