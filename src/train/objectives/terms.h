#pragma once
#include "train/objectives/passes.h"
#include "train/objectives/sample_loss.h"
#include "train/objectives/settings.h"
#include "train/samples/samples.h"

namespace burnish::train {

// Terms that hold a model to what it was before training while it learns. Names, formulas and defaults are those of ai-toolkit
// (diff_output_preservation, blank_prompt_preservation: extensions_built_in/sd_trainer/SDTrainer.py), SimpleTuner (drift:
// distillation method h3_drift) and OneTrainer (masked_prior_preservation_weight: ModelSetupDiffusionLossMixin.py).

/// A term of a loss: how far what one pass predicts is from what another one predicts, of the same noisy latents at the same time.
struct Term {
  std::string name;  ///< of the value [B] without its weight, which the log has as well
  double weight = 1;
  Pass pass, held_to;
  SampleLoss loss = {};     ///< how it is made of elements
  bool is_weighed = false;  ///< whether it counts as the sample's own loss does, by kLossWeight
};

/// The options of the terms, and what they belong to.
std::vector<models::Option> term_options();
std::vector<OwnCondition> term_conditions();
/// Refuses options of terms that contradict others.
void check_terms(const RunForObjective& run);

/// Returns the terms that the options ask for.
std::vector<Term> terms_of(const ObjectiveSettings& settings);

/// Makes the input class_prompt: the caption with the class in place of the trigger word, also where the caption is left out.
std::vector<Input> term_inputs(const models::OptionValues& own);
/// Returns the caption with the class in place of the sample's trigger word.
std::string class_prompt(const models::OptionValues& own, const View& view);

/// Returns sentences about samples without a trigger word whose place the class could take.
std::vector<std::string> term_warnings(const models::OptionValues& own, const Samples& samples);

/// The value [B] that losses and terms add up to.
inline const char* const kTotalLoss = "total_loss";
/// Tells whether the total is more than the samples' own losses.
bool has_total(const ObjectiveSettings& settings);
/// Makes the unit from loss [B], kLossWeight [B] and the values of terms to kTotalLoss [B]: with w the samples' weights and l the factor
/// sft_loss_weight, w (l · loss + Σ weight · term) + Σ weight · term, the first sum over terms that are weighed as samples are.
pipeline::Unit total_unit(const ObjectiveSettings& settings);

}  // namespace burnish::train
