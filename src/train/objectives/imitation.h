#pragma once
#include "models/registry.h"
#include "train/objectives/passes.h"
#include "train/objectives/settings.h"

namespace burnish::train {

// Trajectory imitation: the model before training walks from noise in many steps, perhaps with guidance, and few straight steps of the
// trained one learn to come by the same places. The idea is that of DiffSynth-Studio's training of Z-Image-Turbo
// (diffsynth/diffusion/loss.py); its second term, over a decoded picture, passes no gradient on and is left out.

/// The options of trajectory imitation as numbers.
struct ImitationOptions {
  int64_t num_student_steps = 8, num_teacher_steps = 50;
  double teacher_cfg_scale = 2;
  std::string spacing = "default";  ///< distill.h, spacing_option
};
std::vector<models::Option> imitation_options();
ImitationOptions imitation_options_of(const models::OptionValues& values);

/// Returns where the student's steps begin and the last one ends, in the model's own schedule: num_steps + 1 falling times.
std::vector<double> student_times(const ImitationOptions& options, const diffusion::Process& process, int64_t num_image_tokens);

/// Refines a walk so that it comes by all `times`: for each step between two of them it returns the times of its finer steps, with both
/// ends. The times of `fine` nearest to `times` make way for them.
std::vector<std::vector<double>> walk_through(const std::vector<double>& times, const std::vector<double>& fine);

/// The noise in which a sample's trajectory begins, of the first stream, and of further ones as a list in the order of their names.
inline const char *const kTrajectoryNoise = "trajectory_noise", *const kFurtherNoise = "further_trajectory_noise";

/// Makes the unit "walk" from kTrajectoryNoise [1, C, h, w], kFurtherNoise and the denoiser's conditions (under guidance also those of no
/// prompt, as negative_*) to trajectory [1, steps, C, h, w] of every stream, fp32: for each of the student's steps the mean velocity with
/// which the walk gets from its beginning to its end, over the stream's own levels. `negative` names the conditions that there are of no
/// prompt.
pipeline::Unit walk_unit(models::Model& model, const ObjectiveSettings& settings, const std::set<std::string>& negative);

/// Makes the unit from trajectories, whose names begin with `prefix`, their noise and trajectory_step [B] to noisy and target of every
/// stream: the point where that step begins, to which the noise and the velocities before it lead, and the step's velocity.
pipeline::Unit place_unit(models::Model& model, const ObjectiveSettings& settings, const std::string& prefix);

}  // namespace burnish::train
