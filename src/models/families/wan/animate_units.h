#pragma once
#include "models/families/wan/animate.h"
#include "models/families/wan/frames.h"
#include "models/families/wan/side_module.h"

namespace burnish::models::wan {

/// Holds what Wan-Animate reads: a picture, which is a frame in front of the clip's, poses and a face (diffusers: WanAnimatePipeline).
class AnimateUnits : public SideModule {
 public:
  /// Throws a config Error for columns that do not go together. All but `source` must outlive this.
  AnimateUnits(const ModelOptions& options, Components& components, const Source& source, const Config& dit);

  std::string variant(bool has_experts) const override;
  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_names(Names& names) const override;
  std::string_view picture_before() const override { return reads_ ? kFirstFrameColumn : ""; }
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  pipeline::Unit face_unit();

  Source source_;
  const Config& dit_;
  AnimateConfig config_;
  bool reads_ = false;  ///< whether the run has columns for it
};

}  // namespace burnish::models::wan
