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

/// The options of a concept: its prompts, and how strongly it is learned.
struct ConceptOptions {
  std::string target = {};                   ///< the prompt under which it is learned; an erased one's own where none is said
  std::string positive = {}, opposite = {};  ///< the ends of a slider
  std::string anchor = {};                   ///< what stays as it is; "": nothing is held
  std::string erased = {}, neutral = {};     ///< what is forgotten, and what is made instead
  double guidance = 3;                       ///< how far a slider's ends lie from its middle
  double anchor_weight = 1;                  ///< factor on the anchor's term
  double erasing = 1;                        ///< how far an erased concept is led away from what it was

  bool has_anchor() const { return !anchor.empty(); }
};
ConceptOptions concept_of(const models::OptionValues& own);

/// A concept that a run learns, and how it counts among the others.
struct ConceptChoice {
  models::OptionValues own;  ///< values of the options of objectives, as the concept has them
  Share share = {};
  ConceptOptions options = {};
};
/// Returns the concepts of a run: those of concept_config, each of which begins as `own`, else the one that `own` says. Throws the errors
/// of config::read_toml_items, and a config Error for a file without concepts and for shares that mean nothing.
std::vector<ConceptChoice> concepts_of(const models::OptionValues& own);

/// Tells whether any of the concepts has an anchor, and whether any is led away from what it was.
bool any_anchor(const std::vector<ConceptChoice>& concepts);
bool any_direction(const std::vector<ConceptChoice>& concepts);

/// Return the options that both tasks have, those of a slider, those of an erased concept, and what single options belong to.
std::vector<models::Option> concept_options();
std::vector<models::Option> slider_options();
std::vector<models::Option> erasing_options();
std::vector<OwnCondition> concept_conditions();
/// Returns how the concepts of a run share its samples.
std::vector<Share> concept_shares(const models::OptionValues& own);
/// Makes the inputs of the concepts' prompts, which every sample of a concept has, and of its strengths [1] by the names of their options;
/// the anchor's strength is 0 where a concept has no anchor.
std::vector<Input> concept_inputs(const models::OptionValues& own);
/// Names the options that decide what is learned of each concept.
std::string concept_fingerprint(const std::vector<models::Option>& options, const models::OptionValues& own);
/// Refuse options that say no slider, or no concept.
void check_slider(const RunForObjective& run);
void check_erasing(const RunForObjective& run);

}  // namespace burnish::train
