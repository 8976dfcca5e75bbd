#include "train/objectives/sample_loss.h"

#include <ATen/TensorOperators.h>

namespace burnish::train {

namespace {

/// On the grid of latents the mask is small, so that it is kept with them; how it weighs is decided at every visit.
pipeline::Unit mask_unit() {
  return {"encode_mask", {"mask"}, {"loss_mask"}, {}, [](pipeline::Scope& s) { s.write("loss_mask", s.tensor("mask")); }};
}

/// How much each element of an error [B, C, ..., h, w] counts by the mask.
at::Tensor weight_of(const MaskedLoss& masked, const at::Tensor& mask_B1hw, int64_t num_dims) {
  auto weight = mask_B1hw.to(at::kFloat).clamp_min(masked.unmasked_weight);
  while (weight.dim() < num_dims) weight = weight.unsqueeze(2);  // the same for all frames
  return weight;
}

constexpr double kLeast = 1e-8;  // of what nothing counts of the loss is 0

}  // namespace

at::Tensor masked_mean(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw) {
  auto weight = weight_of(masked, mask_B1hw, error.dim());
  auto mean_B = (error * weight).flatten(1).mean(1);
  return masked.per_area ? mean_B / weight.flatten(1).mean(1).clamp_min(kLeast) : mean_B;
}

at::Tensor mean_error(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw, const at::Tensor& map) {
  if (!map.defined()) return masked.on ? masked_mean(masked, error, mask_B1hw) : error.flatten(1).mean(1);
  auto counts = map.to(at::kFloat).expand_as(error);
  auto weight = masked.on ? counts * weight_of(masked, mask_B1hw, error.dim()) : counts;
  auto over_B = (masked.per_area ? weight : counts).flatten(1).sum(1);
  return (error * weight).flatten(1).sum(1) / over_B.clamp_min(kLeast);
}

pipeline::Units loss_units(models::Model& model, const SampleLoss& loss, const std::string& result) {
  bool is_l2 = loss.robust.shape == RobustLoss::Shape::l2;
  const auto& process = model.process();
  auto units = model.units().weigh;
  bool has_map = !units.empty();
  pipeline::Unit unit{result, {"prediction", "target"}, {result}, {}, {}};
  if (!is_l2) unit.reads.push_back(process.time_name());
  if (loss.masked.on) unit.reads.emplace_back("loss_mask");
  if (has_map) unit.reads.push_back(models::kLossMap);
  unit.run = [loss, is_l2, has_map, result, &process](pipeline::Scope& s) {
    auto threshold_B = is_l2 ? at::Tensor() : thresholds(loss.robust, process, s.tensor(process.time_name()));
    auto error = errors(loss.robust, s.tensor("prediction"), s.tensor("target"), threshold_B);
    auto mask_B1hw = loss.masked.on ? s.tensor("loss_mask") : at::Tensor();
    s.write(result, mean_error(loss.masked, error, mask_B1hw, has_map ? s.tensor(models::kLossMap) : at::Tensor()));
  };
  if (loss.masked.on) units.push_back(mask_unit());
  units.push_back(std::move(unit));
  return units;
}

}  // namespace burnish::train
