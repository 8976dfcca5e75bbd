#include "train/objectives/objective.h"

#include <ATen/TensorOperators.h>

namespace burnish::train {

at::Tensor Objective::reduce(const pipeline::Values& written, const pipeline::Values& draws) const {
  return (std::get<at::Tensor>(written.at("loss")) * std::get<at::Tensor>(draws.at(kLossWeight))).mean();
}

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings, const Subject& subject) {
  subject.model->process().check_options(settings.timesteps, settings.loss);
  return settings.kind->make(settings, subject);
}

}  // namespace burnish::train
