#pragma once
#include "train/objectives/objective_kind.h"

namespace burnish::train {

// The options of sliders and erased concepts, and the concepts that a run learns by them: one, or those of a file.

inline const char* const kTargetClass = "target_class";
inline const char* const kPositivePrompt = "positive_prompt";
inline const char* const kNegativePrompt = "negative_prompt";
inline const char* const kGuidance = "guidance_strength";
inline const char* const kAnchorClass = "anchor_class";
inline const char* const kAnchorWeight = "anchor_strength";
inline const char* const kErasedPrompt = "erase_prompt";
inline const char* const kNeutralPrompt = "neutral_prompt";
inline const char* const kErasing = "erase_strength";
inline const char* const kConceptConfig = "concept_config";

/// The prefixes of the values of these prompts. A slider's negative prompt is not the empty one, whose values are called negative.
inline const std::string kTarget = "target_", kPositive = "positive_", kOpposite = "opposite_", kAnchor = "anchor_", kErased = "erased_",
                         kNeutral = "neutral_";

/// A concept that a run learns, and how it counts among the others.
struct ConceptChoice {
  models::OptionValues own;  ///< values of the options of objectives
  Share share = {};
};
/// Returns the concepts of a run: those of concept_config, each of which begins as `own`, else the one that `own` says. Throws the errors
/// of config::read_toml_items, and a config Error for a file without concepts and for shares that mean nothing.
std::vector<ConceptChoice> concepts_of(const models::OptionValues& own);

/// Tells whether any concept of a run has an anchor, and whether any is led away from something.
bool has_anchor(const models::OptionValues& own);
bool leads_away(const models::OptionValues& own);

/// Returns the options that both have, those of a slider and those of an erased concept; then what single ones of them belong to.
std::vector<models::Option> concept_options();
std::vector<models::Option> slider_options();
std::vector<models::Option> erasing_options();
std::vector<OwnCondition> concept_conditions();
/// Returns how the concepts of a run share its samples.
std::vector<Share> concept_shares(const models::OptionValues& own);
/// Makes the inputs of all their prompts, which are those of every sample of a concept, and of its strengths [1] by the names of their
/// options; an anchor's is 0 where a concept has none.
std::vector<Input> concept_inputs(const models::OptionValues& own);
/// Names the options that decide what is learned of each concept.
std::string concept_fingerprint(const std::vector<models::Option>& options, const models::OptionValues& own);
/// Refuses options that say no slider, or no concept.
void check_slider(const RunForObjective& run);
void check_erasing(const RunForObjective& run);

}  // namespace burnish::train
