#pragma once
#include "base/column.h"
#include "models/families/wan/frames.h"
#include "models/families/wan/side_module.h"

// What Wan's Fun models read beside a prompt: a clip that controls, a reference picture, and how the camera moves (VideoX-Fun; formulas are
// those of DiffSynth-Studio's pipelines/wan_video.py).
namespace burnish::models::wan {

inline constexpr const char *kControlVideo = "control_video", *kReferencePicture = "reference_image",
                            *kCameraDirection = "camera_control_direction", *kCameraSpeed = "camera_control_speed";
inline const Column kControlInputs[] = {
    {.name = kControlVideo, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"a Fun Control model"}},
    {.name = kReferencePicture, .fit = Column::Fit::as_target, .words = {"a Fun Control model with a reference picture"}},
    {.name = kCameraDirection, .is = Column::Is::text, .words = {"a Fun Control-Camera model", "Left"}},
    {.name = kCameraSpeed, .is = Column::Is::numbers, .words = {"a Fun Control-Camera model", "0.01"}},
};

class Control : public SideModule {
 public:
  /// Throws a config Error for columns that do not go together, and a data Error for a transformer of other channels. All must outlive
  /// this.
  Control(const ModelOptions& options, Components& components, const Config& dit, bool has_dit);

  std::string variant(bool has_experts) const override;
  void add_names(Names& names) const override;
  /// Adds the units from the run's columns to control_latents, reference_latents and camera_movement.
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  /// Returns the latents of the clip that controls, zeros where the run has none.
  at::Tensor behind_noise(pipeline::Scope& scope, const at::Tensor& noisy_BCFHW) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  bool reads(std::string_view column) const { return has(column) && can_read(column); }
  bool can_read(std::string_view column) const;
  /// Tells whether the transformer has channels for a clip that controls.
  bool can_control() const { return !dit_.extras.has_camera && dit_.in_channels > 2 * dit_.out_channels + kMaskChannels; }
  /// Tells whether CLIP sees the reference picture.
  bool sees_reference() const { return dit_.image_width > 0 && reads(kReferencePicture) && components_.has("image_encoder"); }
  pipeline::Units encode_units(const std::string& vae, const Encode& encode) const;
  static void see_reference(UnitGroups& groups, const ModelParts& parts);

  const Config& dit_;
  bool has_dit_;
};

}  // namespace burnish::models::wan
