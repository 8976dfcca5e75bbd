#pragma once
#include "models/families/flux/controlnet.h"
#include "models/families/flux/side_module.h"
#include "models/families/flux/side_networks.h"

namespace burnish::models::flux {

/// The ControlNet of a run, which reads what is known of a face in place of the prompt where the files hold InfiniteYou's projector.
class ControlUnits : public SideModule {
 public:
  /// Throws a config Error for columns that do not go together, a data Error for components of another transformer.
  ControlUnits(const ModelOptions& options, Components& components, const SideSources& found, const Config& dit, bool has_dit);

  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  /// Adds the units from its columns to control_latents, control_mode, face_text and face_guidance, and the one that runs the ControlNet on
  /// noisy latents at every step, before the transformer.
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 protected:
  bool can_read(std::string_view column) const override;

 private:
  bool inpaints() const { return config_.control_channels > dit_.out_channels; }
  void check_columns() const;
  void check_sizes() const;
  pipeline::Units picture_units(const ModelParts& parts) const;
  pipeline::Units face_units();
  pipeline::Unit control_unit(const ModelParts& parts);

  Source source_, face_source_;
  ControlConfig config_;
  FaceProjector::Config face_config_;
};

}  // namespace burnish::models::flux
