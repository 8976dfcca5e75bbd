#pragma once
#include "models/families/wan/side_module.h"

// Bernini-R (ByteDance): Wan's transformer, which changes pictures and clips (sources.h). No weight tells it from Wan 2.2 T2V or Wan 2.1
// T2V.
namespace burnish::models::wan {

/// Columns that it reads: a clip that is changed, and pictures that are changed or that tell what is to be seen.
inline constexpr const char *kSourceClip = "bernini_source_video", *kSourcePictures = "bernini_source_images";
inline const Column kSourceInputs[] = {
    {.name = kSourceClip, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"Bernini-R"}},
    {.name = kSourcePictures, .words = {"Bernini-R"}},
};

class SourceUnits : public SideModule {
 public:
  /// A config Error where a run has columns for it and the transformer reads more than noise and texts. All must outlive this.
  SourceUnits(const ModelOptions& options, Components& components, const Config& dit, bool has_dit);

  std::string variant(bool has_experts) const override;
  void add_names(Names& names) const override;
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  bool reads() const { return has(kSourceClip) || has(kSourcePictures); }
};

}  // namespace burnish::models::wan
