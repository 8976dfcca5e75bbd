#pragma once
#include "models/families/wan/found.h"
#include "models/families/wan/motion.h"
#include "models/families/wan/side_module.h"

namespace burnish::models::wan {

/// The motion controller, which reads a number.
class MotionUnits : public SideModule {
 public:
  /// Throws a data Error for a controller of another transformer. All but `found` must outlive this.
  MotionUnits(const ModelOptions& options, Components& components, const Found& found, const Config& dit);

  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_names(Names& names) const override;
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  at::Tensor modulation(pipeline::Scope& scope) override;

 private:
  Source source_;
  MotionController::Config config_;
  bool reads_ = false;  ///< whether the run has a column for it
};

}  // namespace burnish::models::wan
