#pragma once
#include "train/objectives/settings.h"
#include "train/objectives/terms.h"
#include "train/samples/samples.h"

namespace burnish::train {

// Terms that hold a model to what it was before training while it learns. Names, formulas and defaults are those of ai-toolkit
// (diff_output_preservation, blank_prompt_preservation: extensions_built_in/sd_trainer/SDTrainer.py), SimpleTuner (drift:
// distillation method h3_drift) and OneTrainer (masked_prior_preservation_weight: ModelSetupDiffusionLossMixin.py).

/// Settings of these terms, and how the samples' own losses count beside them.
struct Preservation {
  bool of_class = false;        ///< whether the class is held under its own prompt
  std::string class_word = {};  ///< the word that takes the trigger word's place in that prompt
  double class_weight = 1;
  bool of_blank = false;  ///< whether the empty prompt is held
  double blank_weight = 1;
  double drift_weight = 0;         ///< 0: no such term
  double masked_prior_weight = 0;  ///< 0: no such term
  double own_weight = 1;           ///< factor on the samples' own losses
};
Preservation preservation_of(const models::OptionValues& own);

/// Returns the options of these terms, and what they belong to.
std::vector<models::Option> preservation_options();
std::vector<OwnCondition> preservation_conditions();
/// Refuses settings that contradict others of the run.
void check_preservation(const Preservation& preservation, const RunForObjective& run);

/// Returns the terms that are asked for; `of_samples` says how the samples' own losses are made of elements.
std::vector<Term> preservation_terms(const Preservation& preservation, const SampleLoss& of_samples);

/// Makes the input class_prompt: the caption with the class in place of the trigger word, also where the caption is left out.
std::vector<Input> preservation_inputs(const Preservation& preservation);
/// Returns the caption with the class in place of the sample's trigger word.
std::string class_prompt(const std::string& class_word, const Samples& samples, const Pick& pick);

/// Returns sentences about samples without a trigger word whose place the class could take.
std::vector<std::string> preservation_warnings(const Preservation& preservation, const Samples& samples);

}  // namespace burnish::train
