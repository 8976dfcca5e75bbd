#pragma once
#include "pipeline/unit.h"
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
  /// Whether it is the mean squared error, which the models' own loss units compute.
  bool is_plain() const { return robust.shape == RobustLoss::Shape::l2 && !masked.on; }
};

/// The loss of each sample [B], fp32, out of the errors [B, C, ..., h, w] of its elements and a mask [B, 1, h, w] from 0 to 1, as it lies
/// on the grid of latents. An element's weight is max(mask, unmasked_weight), and the loss the mean of error · weight over all elements;
/// per area, that over the weights' mean, and 0 where nothing counts.
at::Tensor masked_mean(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw);

/// The units from prediction and target, and from what `loss` needs besides (the time, and of a sample its mask), to loss [B]. `process`
/// must outlive them.
pipeline::Units loss_units(const SampleLoss& loss, const diffusion::Process& process);

}  // namespace burnish::train
