#pragma once
#include "train/objectives/passes.h"
#include "train/objectives/sample_loss.h"
#include "train/objectives/settings.h"

namespace burnish::train {

// Losses under classifier-free guidance, for models that shall do without it.

/// Settings of losses under guidance: with p the prediction, v the target, u the prediction for no prompt or another one, without gradient,
/// and g a sample's scale, (p + (g - 1) u) / g is compared with v, as DiffSynth-Studio has it (training_cfg_scale,
/// diffsynth/diffusion/loss.py), or p with u + g (v - u), as ai-toolkit has it (do_guidance_loss, SDTrainer.py), whose squared errors are
/// g² times as large.
struct GuidedLoss {
  double scale = 1;          ///< 1: none
  double highest = 0;        ///< where it is above 0, each visit draws its scale between `scale` and this
  bool by_time = false;      ///< whether the scale falls to 1 where there is no noise: 1 + (g - 1) · share of the way to noise alone
  bool scales_away = false;  ///< whether u is first made as long as v along it: u ⟨v, u⟩ / (‖u‖² + 1e-8), CFG-Zero (arXiv 2503.18886)
  bool moves_target = false;     ///< whether p is compared with the moved target
  std::string away_prompt = {};  ///< the prompt that guidance leads away from; "": no prompt

  bool is_on() const { return scale != 1 || highest > 0; }
  /// Returns the pass that predicts u.
  Pass away() const;
};
GuidedLoss guided_loss_of(const models::OptionValues& own);

/// Returns the options of losses under guidance, and what they belong to.
std::vector<models::Option> guidance_options();
std::vector<OwnCondition> guidance_conditions();
/// Makes the input of the prompt that guidance leads away from.
std::vector<Input> guidance_inputs(const GuidedLoss& loss);
/// Refuses a range of scales that is none, or that nobody draws from.
void check_guidance(const GuidedLoss& loss, const RunForObjective& run);

/// The scale of each sample's guidance [B], which is drawn for a visit.
inline const char* const kTrainingScale = "training_cfg";
/// Completes the scales of a visit's draws: they are `drawn` where a range has them drawn, undefined otherwise, of B samples at these
/// times.
at::Tensor training_scales(const GuidedLoss& loss, const at::Tensor& drawn_B, const std::vector<double>& shares);

/// Computes what is compared under guidance at these scales [B], of what is compared without it and of what `GuidedLoss::away` predicts.
ComparedTensors guided(const GuidedLoss& loss, const ComparedTensors& plain, const at::Tensor& away, const at::Tensor& scale_B);

}  // namespace burnish::train
