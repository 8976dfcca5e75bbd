#pragma once
#include <optional>

#include "train/objectives/class_target.h"
#include "train/objectives/guided_loss.h"
#include "train/objectives/passes.h"
#include "train/objectives/sample_loss.h"

namespace burnish::train {

/// A direction between the predictions of two passes, and how far a sum of passes goes along it: factor · amount · (towards - away).
struct Direction {
  Pass towards, away;
  double factor = 1;
  std::string amount = {};  ///< an input [B], a number for each sample
};

/// A sum of what passes predict of the same noisy latents: a base, and directions along which it is led.
struct PassSum {
  Pass base = {};
  std::vector<Direction> directions = {};
  bool spreads_as_base = false;  ///< whether it is brought to the base's mean and standard deviation over all elements of a sample

  std::vector<Pass> passes() const;
};

/// A term of a loss: how far what one pass predicts is from what it is held to, and how that counts. The samples' own loss is one, and what
/// is added to it, and what a concept is learned by.
struct Term {
  std::string name;                     ///< of the value [B] without its weight, which the log has as well
  Pass pass = {};                       ///< the pass that is judged
  std::optional<PassSum> held_to = {};  ///< none: the sample's target
  GuidedLoss guidance = {};             ///< the guidance under which the two are compared
  ClassTarget class_target = {};        ///< what samples of the class set are held to instead
  SampleLoss loss = {};                 ///< how the term is made of elements
  double weight = 1;                    ///< factor on the term
  std::string weighed_by = {};          ///< a further factor on it: a value [B], kLossWeight where it counts as its sample does; "": none
};

/// Returns the passes that the terms need beside the trained one.
std::vector<Pass> passes_of(const std::vector<Term>& terms);

/// Returns the names of the terms.
std::vector<std::string> names_of(const std::vector<Term>& terms);

/// The prefix of the names of what is compared under guidance or with class targets.
inline const std::string kJudged = "judged_";

/// Makes the units from what passes predict to the term's value [B], which the last unit writes. Those before it write, of every stream,
/// the sum that the pass is held to, and what is compared under guidance or with class targets. `model` must outlive them.
pipeline::Units term_units(models::Model& model, const Term& term);

/// Makes the unit `name` from the values of terms to their sum `result` [B]: with w = kLossWeight, w Σ weight · term over the terms that w
/// weighs, and Σ weight · weighed_by · term over the others.
pipeline::Unit total_unit(const std::string& name, const std::string& result, const std::vector<Term>& terms);

}  // namespace burnish::train
