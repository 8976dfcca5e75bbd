#pragma once
#include "diffusion/process.h"
#include "train/objectives/objective_kind.h"
#include "train/objectives/sample_loss.h"

namespace burnish::train {

/// What a sample's loss is.
struct ObjectiveSettings {
  const ObjectiveKind* kind = &sft();
  models::OptionValues own = default_objective_options();  ///< those of the kind among them
  diffusion::TimestepOptions timesteps = {};
  diffusion::LossOptions loss = {};
  SampleLoss sample_loss = {};
  double noise_offset = 0;
  bool draws_latents = false;                              ///< from the autoencoder's distribution, at every visit
  c10::ScalarType dtype = c10::kBFloat16;                  ///< of the model
  c10::Device device = c10::Device(c10::DeviceType::CPU);  ///< likewise
  uint64_t seed = 0;
};

}  // namespace burnish::train
