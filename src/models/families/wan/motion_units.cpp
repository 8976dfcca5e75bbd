#include "models/families/wan/motion_units.h"

#include "base/input_error.h"

namespace burnish::models::wan {

MotionUnits::MotionUnits(const ModelOptions& options, Components& components, const Found& found, const Config& dit)
    : SideModule(options, components), source_(found.motion), config_{.width = dit.width()} {
  reads_ = has(kMotionInput.name) && (source_.entry || !found.has_dit());
  if (!source_.entry) return;
  config_ = naming(source_.entry->label, [&] { return MotionController::detect(source_.shapes()); });
  if (found.has_dit() && config_.width != dit.width())
    data_error("models", "{}: the motion controller is {} wide and the transformer {}; they belong to different models",
               source_.entry->label, config_.width, dit.width());
}

std::vector<NamedRecipe> MotionUnits::components(const ComponentNames&) const {
  if (!source_.entry && !reads_) return {};
  return {{side_recipe<MotionController>(kMotion, "motion controller", source_, config_), plain_names(kMotion)}};
}

void MotionUnits::add_names(Names& names) const {
  if (reads_) names.extra_inputs.push_back(kMotionInput);
}

void MotionUnits::add_units(UnitGroups& groups, const ModelParts&) {
  if (!reads_) return;
  auto& modulate = groups.denoise.front();
  modulate.reads.emplace_back(kMotionInput.name);
  modulate.models.push_back(kMotion);
}

at::Tensor MotionUnits::modulation(pipeline::Scope& scope) {
  if (!reads_) return {};
  scope.uses(kMotion);
  return loaded<MotionController>(kMotion).forward(scope.tensor(kMotionInput.name).to(options_.device));
}

}  // namespace burnish::models::wan
