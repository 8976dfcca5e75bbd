#include "train/objectives/sample_loss.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <span>

#include "base/text.h"

namespace burnish::train {

namespace {

/// Makes the unit that gives the mask on to the loss. On the grid of latents a mask is small, so that it is kept with them; how it weighs
/// is decided at every visit.
pipeline::Unit mask_unit() {
  return {"encode_mask", {"mask"}, {"loss_mask"}, {}, [](pipeline::Scope& s) { s.write("loss_mask", s.tensor("mask")); }};
}

/// Computes how much each element of an error [B, C, ..., h, w] counts by the mask.
at::Tensor weight_of(const MaskedLoss& masked, const at::Tensor& mask_B1hw, int64_t num_dims) {
  auto weight = mask_B1hw.to(at::kFloat).clamp_min(masked.unmasked_weight);
  if (masked.outside) weight = 1 - weight;
  while (weight.dim() < num_dims) weight = weight.unsqueeze(2);  // all frames have one mask
  return weight;
}

/// Tells whether a stream is there for more than to be seen.
bool counts(const models::LatentSpace::Stream& stream, Judged judged) {
  return stream.weight != 0 && (stream.is_of_samples || judged == Judged::drawings);
}

constexpr double kLeast = 1e-8;  // least divisor, with which the loss is 0 where nothing counts

}  // namespace

at::Tensor beside(const at::Tensor& of_samples_B, const at::Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[0] = of_samples_B.numel();
  return of_samples_B.view(shape);
}

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

at::Tensor sum_of_streams(const models::LatentSpace& space, const std::function<at::Tensor(const models::LatentSpace::Stream&)>& of_stream,
                          Judged judged) {
  at::Tensor sum_B;
  for (const auto& stream : space.streams) {
    if (!counts(stream, judged)) continue;
    auto mean_B = of_stream(stream);
    if (!mean_B.defined()) continue;
    if (stream.weight != 1) mean_B = stream.weight * mean_B;
    sum_B = sum_B.defined() ? sum_B + mean_B : mean_B;
  }
  return sum_B;
}

std::set<std::string> written_maps(models::Model& model, Judged judged) {
  std::set<std::string> maps;
  const auto units = model.units().weigh;
  for (const auto& stream : model.latent_space().streams) {
    if (judged == Judged::drawings && stream.name != models::kLatents) continue;
    auto map = stream.value(models::kLossMap);
    if (std::ranges::any_of(units, [&](const auto& unit) { return contains(unit.writes, map); })) maps.insert(map);
  }
  return maps;
}

pipeline::Units weighing_units(models::Model& model, const SampleLoss& loss) {
  auto units = model.units().weigh;
  if (loss.masked.on) units.push_back(mask_unit());
  return units;
}

pipeline::Unit loss_unit(models::Model& model, const SampleLoss& loss, const std::string& result, const Compared& compared) {
  bool is_l2 = loss.robust.shape == RobustLoss::Shape::l2;
  const auto& process = model.process();
  const auto& space = model.latent_space();
  pipeline::Unit unit{result, {}, {result}, {}, {}};
  const auto maps = written_maps(model, compared.judged);
  for (const auto& stream : space.streams) {
    if (counts(stream, compared.judged)) unit.reads.insert(unit.reads.end(), {compared.prediction_of(stream), compared.target_of(stream)});
  }
  if (!is_l2) unit.reads.push_back(process.time_name());
  if (loss.masked.on) unit.reads.emplace_back("loss_mask");
  unit.reads.insert(unit.reads.end(), maps.begin(), maps.end());
  unit.run = [=, &process, &space](pipeline::Scope& s) {
    auto threshold_B = is_l2 ? at::Tensor() : thresholds(loss.robust, process, s.tensor(process.time_name()));
    auto of_stream = [&](const models::LatentSpace::Stream& stream) -> at::Tensor {
      auto error = errors(loss.robust, s.tensor(compared.prediction_of(stream)), s.tensor(compared.target_of(stream)), threshold_B);
      if (error.numel() == 0) return {};
      bool is_masked = loss.masked.on && stream.name == models::kLatents;
      auto map = stream.value(models::kLossMap);
      return mean_error(is_masked ? loss.masked : MaskedLoss{}, error, is_masked ? s.tensor("loss_mask") : at::Tensor(),
                        maps.contains(map) ? s.tensor(map) : at::Tensor());
    };
    s.write(result, sum_of_streams(space, of_stream, compared.judged));
  };
  return unit;
}

pipeline::Units loss_units(models::Model& model, const SampleLoss& loss, const std::string& result, const Compared& compared) {
  auto units = weighing_units(model, loss);
  units.push_back(loss_unit(model, loss, result, compared));
  return units;
}

}  // namespace burnish::train
