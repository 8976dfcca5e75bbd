#pragma once
#include <functional>
#include <set>

#include "models/model/model.h"
#include "train/objectives/robust_loss.h"

namespace burnish::train {

/// Settings of losses that count where a mask says so. Names are OneTrainer's (modelSetup/mixin/ModelSetupDiffusionLossMixin.py).
struct MaskedLoss {
  bool on = false;
  double unmasked_weight = 0;  ///< the least weight that an element has, 0 to 1
  bool per_area = false;       ///< whether the mean is taken over what counts; else over all elements
  bool outside = false;        ///< whether an element counts by 1 less its weight: what the mask leaves out
};

/// Settings of how a sample's loss is made of its elements: the error of each, and how much each counts.
struct SampleLoss {
  RobustLoss robust = {};
  MaskedLoss masked = {};
};

/// Views a number for each sample [B] so that it multiplies `like` [B, ...].
at::Tensor beside(const at::Tensor& of_samples_B, const at::Tensor& like);

/// Computes the loss of each sample [B], fp32, from the errors [B, C, ..., h, w] of its elements and a mask [B, 1, h, w] from 0 to 1, as it
/// lies on the grid of latents. An element's weight is max(mask, unmasked_weight), outside 1 less that, and the loss the mean of error ·
/// weight over all elements; per area this mean is divided by the weights' mean, and is 0 where nothing counts.
at::Tensor masked_mean(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw);

/// Computes the loss of each sample [B], fp32: the mean of its elements' errors. `mask_B1hw` is read where `masked` is on. `map`, where it
/// is defined, is the family's loss_map: it multiplies an element's weight, and elements count in a mean by it.
at::Tensor mean_error(const MaskedLoss& masked, const at::Tensor& error, const at::Tensor& mask_B1hw, const at::Tensor& map);

/// Judged are the samples' own latents, or drawings of the model, which have every stream whatever the samples lack.
enum class Judged { samples, drawings };

/// Sums the losses of each sample's streams by Stream::weight, which gives its loss [B]. `of_stream` gives the errors' mean [B] of a
/// stream, undefined where the samples lack it. The first stream is in every sample.
at::Tensor sum_of_streams(const models::LatentSpace& space, const std::function<at::Tensor(const models::LatentSpace::Stream&)>& of_stream,
                          Judged judged = Judged::samples);

/// Returns the names of the loss maps of streams that the model's units write, of drawings that of the first stream alone: the others' say
/// what a sample lacks.
std::set<std::string> written_maps(models::Model& model, Judged judged = Judged::samples);

/// Makes the units that say how a sample's elements count: those of the family, and for masks the one that writes loss_mask.
pipeline::Units weighing_units(models::Model& model, const SampleLoss& loss);

/// The names of the values of every stream that are compared: these, behind a prefix.
struct Compared {
  std::string prediction_prefix = {}, target_prefix = {};
  std::string target = "target";
  Judged judged = Judged::samples;

  std::string prediction_of(const models::LatentSpace::Stream& stream) const { return prediction_prefix + stream.value("prediction"); }
  std::string target_of(const models::LatentSpace::Stream& stream) const { return target_prefix + stream.value(target); }
};
/// The two tensors of a stream that are compared.
struct ComparedTensors {
  at::Tensor prediction, target;
};

/// Makes the unit from predictions and targets of all streams, from what the units of `weighing_units` write, and from what `loss` needs
/// besides (the time, and a sample's mask, which counts pixels of the first stream), to `result` [B]: the one place in which a prediction
/// is judged. `model` must outlive it.
pipeline::Unit loss_unit(models::Model& model, const SampleLoss& loss, const std::string& result = "loss", const Compared& compared = {});

/// Makes the units of `weighing_units`, then `loss_unit`.
pipeline::Units loss_units(models::Model& model, const SampleLoss& loss, const std::string& result = "loss", const Compared& compared = {});

}  // namespace burnish::train
