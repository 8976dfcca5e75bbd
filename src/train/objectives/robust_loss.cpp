#include "train/objectives/robust_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/choice.h"
#include "base/input_error.h"

namespace burnish::train {

const std::vector<std::string>& loss_types() {
  static const std::vector<std::string> kShapes{"l2", "huber", "smooth_l1"};
  return kShapes;
}

const std::vector<std::string>& huber_schedules() {
  static const std::vector<std::string> kSchedules{"constant", "exponential", "snr"};
  return kSchedules;
}

RobustLoss parse_robust_loss(const std::string& shape, const std::string& schedule, double c, double scale) {
  auto place = [](const char* option, const auto& names, const std::string& name) {
    auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) unknown_choice("train", option, name, names);
    return static_cast<int>(it - names.begin());
  };
  RobustLoss loss{static_cast<RobustLoss::Shape>(place("loss_type", loss_types(), shape)),
                  static_cast<RobustLoss::Over>(place("huber_schedule", huber_schedules(), schedule)), c, scale};
  if (!(c > 0)) config_error("train", "huber_c must be above 0, not {}", c);
  if (!(scale > 0)) config_error("train", "huber_scale must be above 0, not {}", scale);
  return loss;
}

at::Tensor thresholds(const RobustLoss& loss, const diffusion::Process& process, const at::Tensor& time_B) {
  if (loss.over == RobustLoss::Over::constant) return at::full_like(time_B, loss.c * loss.scale);
  if (loss.over == RobustLoss::Over::exponential) {
    auto share_per_time = process.share_of(1.0);  // shares are proportional to times
    return at::pow(loss.c, time_B * share_per_time) * loss.scale;
  }
  // Adding noise to signal alone, and to nothing, says how much of each there is at these times.
  auto one = at::ones_like(time_B), zero = at::zeros_like(time_B);
  auto ratio_B = process.add_noise(zero, one, time_B) / process.add_noise(one, zero, time_B).clamp_min(1e-8);
  return (1 - loss.c) / (1 + ratio_B).square() + loss.c;
}

at::Tensor errors(const RobustLoss& loss, const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& threshold_B) {
  auto difference = prediction.to(at::kFloat) - target.to(at::kFloat);
  if (loss.shape == RobustLoss::Shape::l2) return difference.square();
  std::vector<int64_t> a_number_a_sample(static_cast<size_t>(difference.dim()), 1);
  a_number_a_sample[0] = difference.size(0);
  auto c = threshold_B.to(at::kFloat).reshape(a_number_a_sample);
  auto beyond = (difference.square() + c.square()).sqrt() - c;
  return loss.shape == RobustLoss::Shape::huber ? 2 * c * beyond : 2 * beyond;
}

}  // namespace burnish::train
