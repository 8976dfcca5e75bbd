#include "train/objectives/sft_terms.h"

#include <algorithm>
#include <iterator>

namespace burnish::train {

SftOptions sft_options_of(const models::OptionValues& own) { return {preservation_of(own), guided_loss_of(own), class_target_of(own)}; }

std::vector<models::Option> sft_options() {
  auto options = preservation_options();
  for (auto more : {guidance_options(), class_target_options()}) std::ranges::move(more, std::back_inserter(options));
  return options;
}

std::vector<OwnCondition> sft_conditions() {
  auto conditions = preservation_conditions();
  std::ranges::move(guidance_conditions(), std::back_inserter(conditions));
  return conditions;
}

std::vector<Input> sft_inputs(const models::OptionValues& own) {
  const auto options = sft_options_of(own);
  auto inputs = preservation_inputs(options.preservation);
  std::ranges::move(guidance_inputs(options.guidance), std::back_inserter(inputs));
  return inputs;
}

void check_sft(const RunForObjective& run) {
  const auto options = sft_options_of(run.own);
  check_preservation(options.preservation, run);
  check_guidance(options.guidance, run);
  check_class_target(options.class_target, run);
}

std::vector<Term> SftTerms::all() const {
  std::vector<Term> terms{own};
  terms.insert(terms.end(), added.begin(), added.end());
  return terms;
}

SftTerms sft_terms(const ObjectiveSettings& settings) {
  const auto options = sft_options_of(settings.own);
  SftTerms terms{.own = {.name = "loss",
                         .guidance = options.guidance,
                         .class_target = options.class_target,
                         .loss = settings.sample_loss,
                         .weight = options.preservation.own_weight,
                         .weighed_by = kLossWeight},
                 .added = preservation_terms(options.preservation, settings.sample_loss)};
  // A term that compares with the model before training does so for all samples, so that this model has to run for all.
  terms.own.class_target.has_own_rows = !settings.runs_all_alike && std::ranges::none_of(passes_of(terms.added), &Pass::before_training);
  return terms;
}

}  // namespace burnish::train
