#pragma once
#include <functional>
#include <set>

#include "models/model.h"
#include "train/objectives/robust_loss.h"

namespace burnish::train {

/// Losses that count where a mask says so. Names of OneTrainer (modelSetup/mixin/ModelSetupDiffusionLossMixin.py).
struct MaskedLoss {
  bool on = false;
  double unmasked_weight = 0;  ///< the least that an element counts, 0 to 1
  bool per_area = false;       ///< the mean over what counts; else over all elements
};

/// What a sample's loss is of its elements: an error for each, and how much each counts.
struct SampleLoss {
  RobustLoss robust = {};
  MaskedLoss masked = {};
};

/// The loss of each sample [B], fp32, out of the errors [B, C, ..., h, w] of its elements and a mask [B, 1, h, w] from 0 to 1, as it lies
/// on the grid of latents. An element's weight is max(mask, unmasked_weight), and the loss the mean of error · weight over all elements;
/// per area, that over the weights' mean, and 0 where nothing counts.
at::Tensor masked_mean(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw);

/// The loss of each sample [B], fp32, out of the errors of its elements: their mean. `mask_B1hw` is read where `masked` is on. `map`, where
/// it is defined, is the family's loss_map: an element's weight is multiplied with it, and what a mean is taken over is what it counts.
at::Tensor mean_error(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw, const at::Tensor& map);

/// The loss of each sample [B] out of that of each stream that it has: their sum by Stream::weight. `of_stream` gives the errors' mean [B]
/// of a stream, undefined where the samples lack it. The first stream is in every sample.
at::Tensor sum_of_streams(const models::LatentSpace& space, const std::function<at::Tensor(const models::LatentSpace::Stream&)>& of_stream);

/// Which of the streams' loss maps the model's units write.
std::set<std::string> written_maps(models::Model& model);

/// The units from predictions and targets of all streams, from what the family says of how they count, and from what `loss` needs besides
/// (the time, and of a sample its mask, which counts pixels of the first stream), to `result` [B]: the one place in which a prediction is
/// judged. `model` must outlive them.
pipeline::Units loss_units(models::Model& model, const SampleLoss& loss, const std::string& result = "loss");

}  // namespace burnish::train
