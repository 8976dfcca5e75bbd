#pragma once
#include "models/families/flux/side_module.h"

namespace burnish::models::flux {

/// The channels behind the noisy latents of transformers that edit: FLUX.1 Fill and FLEX.2.
class EditingUnits : public SideModule {
 public:
  /// Throws a config Error for columns that do not go together, or with reference pictures, and a data Error for a transformer of other
  /// channels.
  EditingUnits(const ModelOptions& options, Components& components, const Config& dit, bool has_dit);

  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  /// Returns what the columns say, or where the run names none, channels of a picture of which all is to be drawn.
  at::Tensor behind_noise(pipeline::Scope& scope, const at::Tensor& noisy_BCHW) override;

 protected:
  bool can_read(std::string_view column) const override;

 private:
  enum class Editing { none, fill, flex };
  bool fills() const { return has("flux_fill_image"); }
  bool flexes() const { return has("flex_inpaint_image") || has("flex_inpaint_mask") || has("flex_control_image"); }

  Editing editing_ = Editing::none;
};

}  // namespace burnish::models::flux
