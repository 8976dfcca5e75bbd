#include "train/objectives/reference.h"

#include <ATen/core/grad_mode.h>

#include "base/input_error.h"
#include "nn/delta_strength.h"

namespace burnish::train {

pipeline::Units reference_units(const pipeline::Units& units, const Subject& subject) {
  if (const auto& words = subject.chosen.words; !words.empty())
    config_error("train",
                 "the model before training knows no '{}', and this run compares with what it makes of the captions; take embedding_token "
                 "or the comparison out",
                 words.front().settings.text);
  pipeline::Difference difference{.prefix = kReference};
  auto whole = subject.chosen.whole_components();
  for (const auto& model : subject.chosen.models(*subject))
    (whole.contains(pipeline::component_of(model)) ? difference.initial : difference.frozen).insert(model);
  auto all = pipeline::twins(units, difference);
  for (auto& unit : all) {
    unit.run = [run = unit.run](pipeline::Scope& scope) {
      at::NoGradGuard no_grad;
      nn::DeltaStrength off(0);
      run(scope);
    };
  }
  return all;
}

}  // namespace burnish::train
