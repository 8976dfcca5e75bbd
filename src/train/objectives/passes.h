#pragma once
#include "train/objectives/reference.h"
#include "train/samples/inputs.h"

namespace burnish::train {

/// The prefixes of names of values that belong to no prompt, and to the caption with the class in place of the trigger word.
inline const std::string kNegative = "negative_", kOfClass = "class_";

/// A pass of the denoiser through a sample's noisy latents: under which prompt, and whether the model before training makes it.
struct Pass {
  std::string prompt = {};       ///< prefix of the values of a prompt; "" is the sample's own
  bool before_training = false;  ///< such a pass has no gradient
  bool has_gradient = true;      ///< else the model makes it as it is, and learns nothing by it
  double strength = 1;           ///< of what adapters train (nn/delta_strength.h)

  /// Returns what stands before the names of the values that the pass gives.
  std::string prefix() const;
};

/// Makes the input "`prefix`prompt", whose text is a sample's alone, whatever its caption.
Input prompt_input(const std::string& prefix, std::function<std::string(const Sample&)> text_of);

/// Makes of `own` units that run what trains at the strength of a batch's samples (kSliderStrength). Throws a config Error as
/// `with_passes`.
pipeline::Units at_strength_of_samples(pipeline::Units own, const Subject& subject);

/// Makes the units of all passes from `own`, those of the pass that is trained, which stand first. Throws a config Error where a prompt of
/// `needed` decides nothing of what the model predicts, and where what trains has no strength but 1: weights that train whole, and
/// magnitudes.
pipeline::Units with_passes(const pipeline::Units& own, const Subject& subject, const std::vector<Pass>& needed);

/// Returns the names of the units beside the trained pass of which no pass of `needed` has a gradient.
std::set<std::string> units_without_gradient(const pipeline::Units& units, const std::vector<Pass>& needed);

}  // namespace burnish::train
