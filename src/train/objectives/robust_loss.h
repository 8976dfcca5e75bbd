#pragma once
#include <string>
#include <vector>

#include "diffusion/process.h"

namespace burnish::train {

/// Settings by which errors beyond a threshold count less than by their square, so that a few bad samples do not lead. Formulas and names
/// are sd-scripts' (library/train_util.py, conditional_loss and get_huber_threshold_if_needed).
struct RobustLoss {
  enum class Shape { l2, huber, smooth_l1 } shape = Shape::l2;
  /// The way in which the threshold changes over times: not at all, falling exponentially towards noise, or by the ratio of signal and
  /// noise.
  enum class Over { constant, exponential, snr } over = Over::snr;
  double c = 0.1, scale = 1;
};

/// Return the words of options that parse_robust_loss reads.
const std::vector<std::string>& loss_types();
const std::vector<std::string>& huber_schedules();

/// Parses the words of options: l2, huber, smooth_l1; constant, exponential, snr. Throws a config Error for other words, and for a
/// threshold or scale that is not above 0.
RobustLoss parse_robust_loss(const std::string& shape, const std::string& schedule, double c, double scale);

/// Computes the thresholds [B] at times [B]: with s the share of the way to noise alone and r noise over signal,
///   constant c·scale;  exponential c^s·scale;  snr (1 - c) / (1 + r)² + c.
at::Tensor thresholds(const RobustLoss& loss, const diffusion::Process& process, const at::Tensor& time_B);

/// Computes the error of each element [B, ...], fp32: with d the difference and c the sample's threshold, which l2 does not read,
///   l2 d²;  huber 2c(√(d² + c²) - c);  smooth_l1 2(√(d² + c²) - c).
at::Tensor errors(const RobustLoss& loss, const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& threshold_B);

}  // namespace burnish::train
