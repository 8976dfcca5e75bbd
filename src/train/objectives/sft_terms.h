#pragma once
#include "train/objectives/preservation.h"

namespace burnish::train {

/// The options of supervised fine-tuning.
struct SftOptions {
  Preservation preservation = {};
  GuidedLoss guidance = {};
  ClassTarget class_target = {};
};
SftOptions sft_options_of(const models::OptionValues& own);

std::vector<models::Option> sft_options();
/// Returns what single options belong to.
std::vector<OwnCondition> sft_conditions();
/// Makes the inputs of the prompts beside the sample's own.
std::vector<Input> sft_inputs(const models::OptionValues& own);
/// Refuses options that contradict others of the run.
void check_sft(const RunForObjective& run);

/// The value [B] that the samples' own losses and the terms beside them add up to.
inline const char* const kTotalLoss = "total_loss";

/// The terms that a run of supervised fine-tuning learns by.
struct SftTerms {
  Term own;                      ///< the samples' own loss
  std::vector<Term> added = {};  ///< the terms that are added to it

  /// Returns all terms in the order in which they are added up.
  std::vector<Term> all() const;
  /// Tells whether their total is more than the samples' own losses.
  bool have_total() const { return !added.empty() || own.weight != 1; }
};
SftTerms sft_terms(const ObjectiveSettings& settings);

}  // namespace burnish::train
