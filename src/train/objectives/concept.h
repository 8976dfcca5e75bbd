#pragma once
#include "train/objectives/concept_options.h"
#include "train/objectives/passes.h"

namespace burnish::train {

// What a model learns about a concept from itself, by what its own predictions under several prompts differ in: a slider between two ends
// (Gandikota et al. 2023, arXiv 2311.12092; names, formula and defaults are those of ai-toolkit's concept_slider), and a concept that is
// erased (Gandikota et al. 2023, arXiv 2303.07345, and p1atdev/LECO).

/// An aim of a concept's loss: a pass is to predict base + scale · strength (towards - away), which the model before training predicts of
/// the same noisy latents under those prompts.
struct Aim {
  std::string name;             ///< of its loss [B], which the log has as well
  double weight = 1;            ///< of that loss in the sample's
  std::string weighed_by = {};  ///< a further factor on it: an input [B]; "": none
  Pass pass = {};
  std::string base = {}, towards = {}, away = {};  ///< prefixes of the values of prompts; the last two count where there is a scale
  double scale = 0;
  std::string strength = {};     ///< the input [B] that says how far each sample is led
  bool spreads_as_base = false;  ///< whether it is brought to the base's mean and standard deviation over all elements of a sample

  /// Returns what stands before the names of what the pass is compared with.
  std::string prefix() const { return name + "_of_"; }
  /// Returns all passes that it takes.
  std::vector<Pass> passes() const;
};

/// Makes the unit that writes what the aim's pass is compared with, of every stream. `model` must outlive it.
pipeline::Unit aim_unit(models::Model& model, const Aim& aim);

/// A concept as options speak of it.
struct Concept {
  std::vector<Aim> aims = {};
  std::string drawn = {};     ///< the prefix of the prompt under which latents are drawn
  double drawn_strength = 1;  ///< of what is learned so far, while they are
};
Concept slider_of(const models::OptionValues& own);
Concept erased_of(const models::OptionValues& own);

}  // namespace burnish::train
