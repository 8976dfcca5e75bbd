#include "train/objectives/sample_loss.h"

#include <ATen/TensorOperators.h>

namespace burnish::train {

namespace {

/// On the grid of latents the mask is small, so that it is kept with them; how it weighs is decided at every visit.
pipeline::Unit mask_unit() {
  return {"encode_mask", {"mask"}, {"loss_mask"}, {}, [](pipeline::Scope& s) { s.write("loss_mask", s.tensor("mask")); }};
}

}  // namespace

at::Tensor masked_mean(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw) {
  auto weight = mask_B1hw.to(at::kFloat).clamp_min(masked.unmasked_weight);
  while (weight.dim() < error.dim()) weight = weight.unsqueeze(2);  // the same for all frames
  auto mean_B = (error * weight).flatten(1).mean(1);
  return masked.per_area ? mean_B / weight.flatten(1).mean(1).clamp_min(1e-8) : mean_B;
}

pipeline::Units loss_units(const SampleLoss& loss, const diffusion::Process& process) {
  bool is_l2 = loss.robust.shape == RobustLoss::Shape::l2;
  pipeline::Unit unit{"loss", {"prediction", "target"}, {"loss"}, {}, {}};
  if (!is_l2) unit.reads.push_back(process.time_name());
  if (loss.masked.on) unit.reads.emplace_back("loss_mask");
  unit.run = [loss, is_l2, &process](pipeline::Scope& s) {
    auto threshold_B = is_l2 ? at::Tensor() : thresholds(loss.robust, process, s.tensor(process.time_name()));
    auto error = errors(loss.robust, s.tensor("prediction"), s.tensor("target"), threshold_B);
    s.write("loss", loss.masked.on ? masked_mean(loss.masked, error, s.tensor("loss_mask")) : error.flatten(1).mean(1));
  };
  return loss.masked.on ? pipeline::Units{mask_unit(), unit} : pipeline::Units{unit};
}

}  // namespace burnish::train
