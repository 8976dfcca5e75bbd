#pragma once
#include "train/objectives/reference.h"

namespace burnish::train {

/// The prefixes of names of values that belong to no prompt, and to the caption with the class in place of the trigger word.
inline const std::string kNegative = "negative_", kOfClass = "class_";

/// A pass of the denoiser through a sample's noisy latents: under which prompt, and whether the model before training makes it.
struct Pass {
  std::string prompt = {};      ///< prefix of the values of a prompt; "" is the sample's own
  bool before_training = false;  ///< such a pass has no gradient

  /// Returns what stands before the names of the values that the pass gives.
  std::string prefix() const { return (before_training ? kReference : "") + prompt; }
};

/// Makes the units of all passes from `own`, those of the pass that is trained, which stand first. A prompt of which no pass is in
/// `with_gradient` runs without gradient. Throws a config Error where a prompt of `needed` decides nothing of what the model predicts.
pipeline::Units with_passes(const pipeline::Units& own, const Subject& subject, const std::set<std::string>& with_gradient,
                            const std::vector<Pass>& needed);

}  // namespace burnish::train
