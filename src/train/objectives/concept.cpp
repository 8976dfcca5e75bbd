#include "train/objectives/concept.h"

namespace burnish::train {

namespace {

Pass before_training(const std::string& prompt) { return {.prompt = prompt, .before_training = true}; }

/// Makes the term by which what is predicted under the anchor's prompt stays as it was.
Term anchored(const std::string& name, const SampleLoss& loss, double weight, double strength) {
  return {.name = name,
          .pass = {.prompt = kAnchor, .strength = strength},
          .held_to = PassSum{.base = before_training(kAnchor)},
          .loss = loss,
          .weight = weight,
          .weighed_by = kAnchorWeight};
}

}  // namespace

Concept slider_of(const std::vector<ConceptChoice>& concepts, const SampleLoss& loss) {
  // ai-toolkit compares each end with its target twice, once as what is strengthened and once as what is weakened, and halves no loss
  // where there is no anchor.
  Concept slider{.drawn = kTarget, .drawn_strength = 0};
  for (double end : {1.0, -1.0}) {
    const std::string name = end > 0 ? "positive" : "negative";
    const Direction to_end{before_training(kPositive), before_training(kOpposite), end, kGuidance};
    slider.terms.push_back({.name = name + "_loss",
                            .pass = {.prompt = kTarget, .strength = end},
                            .held_to = PassSum{.base = before_training(kTarget), .directions = {to_end}, .spreads_as_base = true},
                            .loss = loss,
                            .weight = 2.0 / 3});
    if (any_anchor(concepts)) slider.terms.push_back(anchored(name + "_anchor_loss", loss, 1.0 / 3, end));
  }
  return slider;
}

Concept erased_of(const std::vector<ConceptChoice>& concepts, const SampleLoss& loss) {
  PassSum instead{.base = before_training(kNeutral)};
  if (any_direction(concepts)) instead.directions = {{before_training(kErased), before_training(kNegative), -1, kErasing}};
  Concept erased{.drawn = kTarget};
  erased.terms.push_back({.name = "erased_loss", .pass = {.prompt = kTarget}, .held_to = instead, .loss = loss});
  if (any_anchor(concepts)) erased.terms.push_back(anchored("anchor_loss", loss, 1, 1));
  return erased;
}

}  // namespace burnish::train
