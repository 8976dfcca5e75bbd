#pragma once
#include "diffusion/process.h"
#include "train/objectives/objective_kind.h"
#include "train/objectives/sample_loss.h"

namespace burnish::train {

/// Settings that say what a sample's loss is.
struct ObjectiveSettings {
  const ObjectiveKind* kind = &sft();
  models::OptionValues own = default_objective_options();  ///< values of options, the kind's own among them
  diffusion::TimestepOptions timesteps = {};
  diffusion::LossOptions loss = {};
  SampleLoss sample_loss = {};
  double noise_offset = 0;
  bool has_strengths = false;                              ///< whether datasets are seen at strengths of what is learned other than 1
  bool runs_all_alike = false;                             ///< whether every process runs a model as often as the others in a step
  bool draws_latents = false;                              ///< whether latents are drawn from the autoencoder's distribution at every visit
  c10::ScalarType dtype = c10::kBFloat16;                  ///< the model's dtype
  c10::Device device = c10::Device(c10::DeviceType::CPU);  ///< the model's device
  uint64_t seed = 0;
};

}  // namespace burnish::train
