#pragma once
#include <nlohmann/json_fwd.hpp>

#include "drawing/walk.h"
#include "models/registry.h"

namespace burnish::train {

// Direct distillation, as DiffSynth-Studio does it: the student starts from the noise that the teacher started from, takes all steps, and
// its latents at the end are compared with those of the teacher's picture.

/// The metadata columns that say how a teacher's picture was drawn.
inline const std::vector<std::string> kTrajectoryColumns{"seed", "rand_device", "num_inference_steps", "cfg_scale"};

/// The option for the steps of a walk; its values are those of diffusion::SamplerOptions::timestep_spacing.
inline const char* const kSpacing = "distill_spacing";
models::Option spacing_option();
std::string spacing_of(const models::OptionValues& own);

/// The start and length of a row's trajectory.
struct Trajectory {
  int64_t seed = 0, num_steps = 0;
  std::string rand_device = "cpu";
};

/// Reads a trajectory from the row's columns; a data Error when seed or num_inference_steps is missing or no number, or cfg_scale is not 1.
Trajectory trajectory_of(const nlohmann::json& columns, int64_t row);

/// Draws the noise [1, C, H, W] that torch.randn draws in fp32 for the seed on the trajectory's device, rounded to `dtype` as the teacher's
/// was; fp32. Throws a data Error for a GPU's noise without a GPU. A further stream of latents has noise of its own, drawn by that seed.
at::Tensor start_noise(const Trajectory& trajectory, at::IntArrayRef latent_shape, c10::ScalarType dtype,
                       const std::string& stream = models::kLatents);

/// Makes the unit from start_noise [B, C, H, W] of every stream, the number num_inference_steps and what `denoise` reads beside noisy and
/// time to loss [B]: every step of the model's own sampler runs `denoise` of the expert that predicts there, with gradients through all of
/// them; the loss is the mean squared error between the latents at the end and the value latents, summed over the streams. `spacing` is
/// that of the steps (diffusion::SamplerOptions).
pipeline::Unit distill_unit(models::Model& model, const std::string& spacing);

/// Returns the units that direct_distill runs: the encoders, then distill_unit.
pipeline::Units distill_units(models::Model& model, const std::string& spacing);

}  // namespace burnish::train
