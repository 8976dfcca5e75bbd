#pragma once
#include "train/objectives/concept_options.h"
#include "train/objectives/terms.h"

namespace burnish::train {

// What a model learns about a concept from itself, by what its own predictions under several prompts differ in: a slider between two ends
// (Gandikota et al. 2023, arXiv 2311.12092; names, formula and defaults are those of ai-toolkit's concept_slider), and a concept that is
// erased (Gandikota et al. 2023, arXiv 2303.07345, and p1atdev/LECO).

/// The terms by which concepts are learned, whose passes are held to sums of what the model before training predicts, and where the model
/// draws latents for them.
struct Concept {
  std::vector<Term> terms = {};
  std::string drawn = {};     ///< the prefix of the prompt under which latents are drawn
  double drawn_strength = 1;  ///< the strength of what is learned so far, while they are
};
/// Makes what the concepts of a run are learned by: `concepts` are all sliders, or all erased ones. `loss` says how each term is made of
/// elements.
Concept slider_of(const std::vector<ConceptChoice>& concepts, const SampleLoss& loss);
Concept erased_of(const std::vector<ConceptChoice>& concepts, const SampleLoss& loss);

}  // namespace burnish::train
