#pragma once
#include "train/objectives/passes.h"
#include "train/objectives/settings.h"

namespace burnish::train {

// What the samples' own losses compare: prediction and target as they are, or under guidance, or for samples of a class set with what the
// model before training predicts.

/// The options of it, and what they belong to.
std::vector<models::Option> judged_options();
std::vector<OwnCondition> judged_conditions();
/// Makes the inputs of its prompts.
std::vector<Input> judged_inputs(const models::OptionValues& own);
/// Refuses options of it that contradict others.
void check_judged(const RunForObjective& run);

/// Settings of losses under guidance: with p the prediction, v the target, u the prediction for no prompt or another one, without gradient,
/// and g a sample's scale, (p + (g - 1) u) / g is compared with v, as DiffSynth-Studio has it (training_cfg_scale,
/// diffsynth/diffusion/loss.py), or p with u + g (v - u), as ai-toolkit has it (do_guidance_loss, SDTrainer.py), whose squared errors are
/// g² times as large.
struct GuidedLoss {
  double scale = 1;          ///< 1: none
  double highest = 0;        ///< where it is above 0, each visit draws its scale between `scale` and this
  bool by_time = false;      ///< whether the scale falls to 1 where there is no noise: 1 + (g - 1) · share of the way to noise alone
  bool scales_away = false;  ///< whether u is first made as long as v along it: u ⟨v, u⟩ / (‖u‖² + 1e-8), CFG-Zero (arXiv 2503.18886)
  bool moves_target = false;  ///< whether p is compared with the moved target

  bool is_on() const { return scale != 1 || highest > 0; }
};
GuidedLoss guided_loss_of(const models::OptionValues& own);

/// The scale of each sample's guidance [B], which is drawn for a visit.
inline const char* const kTrainingScale = "training_cfg";
/// Completes the scales of a visit's draws: they are `drawn` where a range has them drawn, undefined otherwise, of B samples at these
/// times.
at::Tensor training_scales(const GuidedLoss& loss, const at::Tensor& drawn_B, const std::vector<double>& shares);

/// Returns the passes that the samples' own losses need beside the trained one.
std::vector<Pass> judged_passes(const models::OptionValues& own);
/// The prefix of the names of what is compared, where that is not prediction and target themselves.
inline const std::string kJudged = "judged_";
/// Has the model before training run for samples of the class set alone, where nothing else is compared with it: what it predicts has a
/// row for each of them, and none at all in a batch without one. Processes then run it as often as their own batches need it.
pipeline::Units run_for_class_set(pipeline::Units units);
/// Makes the unit that writes what is compared of every stream; `class_set_alone`: behind such units. `model` must outlive it.
pipeline::Unit judged_unit(models::Model& model, const models::OptionValues& own, bool class_set_alone);

}  // namespace burnish::train
