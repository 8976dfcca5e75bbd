#pragma once
#include "base/column.h"
#include "models/families/qwen_image_21/controlnet.h"
#include "models/families/qwen_image_21/transformer.h"
#include "models/parts/side_module.h"

namespace burnish::models::qwen_image_21 {

/// Columns that it reads, by DiffSynth-Studio's names.
inline constexpr const char *kControlColumn = "controlnet_image", *kInpaintedColumn = "controlnet_inpaint_image",
                            *kMaskColumn = "controlnet_inpaint_mask";
inline const Column kExtraInputs[] = {
    {.name = kControlColumn, .fit = Column::Fit::as_target, .words = {"a ControlNet"}},
    {.name = kInpaintedColumn, .fit = Column::Fit::as_target, .words = {"a ControlNet that inpaints"}},
    {.name = kMaskColumn, .fit = Column::Fit::as_target, .words = {"a ControlNet that inpaints"}},
};

/// Finds the ControlNet among these files.
Source find_control(const ModelFiles& files);

/// The ControlNet of a run: found among its files, held to the transformer, and called as the columns ask for it.
class Control : public SideModule<Transformer::Inputs> {
 public:
  /// Throws a config Error for columns that do not go together, a data Error for a ControlNet of another transformer, where the files hold
  /// one. `options`, `components` and `dit` must outlive this.
  Control(const ModelOptions& options, Components& components, const ModelFiles& files, const Config& dit, bool has_dit);

  /// Tells whether the run names its columns.
  bool is_read() const { return has(kControlColumn) || has(kMaskColumn); }
  std::vector<NamedRecipe> components(const ComponentNames& dit) const override;
  void add_names(Names& names) const override;
  /// Adds the unit from the run's columns to control_latents [1, N, h, w]: latents of the picture that controls, 1 where a picture to
  /// inpaint is kept and 0 where it is drawn anew, and latents of that picture. What is not given is 0.
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  const Config& dit_;
  Source source_;
  ControlNet::Config config_;
};

}  // namespace burnish::models::qwen_image_21
