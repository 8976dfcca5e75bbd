#pragma once
#include "drawing/walk.h"
#include "train/objectives/settings.h"

namespace burnish::train {

// Latents that the model draws itself, to a step that is drawn for each batch, as p1atdev/LECO has it (max_denoising_steps): so a concept
// is learned where the model makes it, without a picture.

/// Settings of drawings by the model that trains.
struct DrawnLatents {
  bool on = false;  ///< else the noisy latents are those of pictures
  diffusion::SamplerOptions sampler = {.num_steps = 50};
  double guidance = 1;          ///< classifier-free guidance; 1 is without
  std::string step_noise = {};  ///< the noise [B, steps, ...], among what is drawn, that the sampler adds on its way; none: it adds none
};
std::vector<models::Option> drawn_latents_options();
std::vector<OwnCondition> drawn_latents_conditions();
DrawnLatents drawn_latents_of(const models::OptionValues& own);

/// The number, among the draws of a batch, of the steps that were taken before the denoiser sees the latents.
inline const char* const kDrawnSteps = "drawn_steps";
/// Returns the time of the step that follows this many steps.
double time_after_steps(const DrawnLatents& drawn, const models::Model& model, const Sample& sample, int64_t num_steps);

/// The conditions under which latents are drawn.
struct DrawnUnder {
  /// Return the name of the value that is read in place of one that `denoise` reads: for the prompt, and for what guidance leads away from.
  std::function<std::string(const std::string&name)> prompt, away;
  double strength = 1;  ///< of what has been learned so far
};
/// The name of the unit of `drawing_unit`.
inline const char* const kDrawLatents = "draw_latents";
/// Makes the unit from noise, kDrawnSteps and the values that `under` names to noisy, without gradients. `model` must outlive it.
pipeline::Unit drawing_unit(models::Model& model, const DrawnLatents& drawn, const DrawnUnder& under);

}  // namespace burnish::train
