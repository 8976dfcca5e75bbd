#pragma once
#include "models/families/wan/found.h"
#include "models/families/wan/side_module.h"

// Wan-Animate-2: a picture that moves as the clip does on which the transformer runs too (diffusers: WanAnimate2Transformer3DModel and the
// blocks of its modular pipeline).
namespace burnish::models::wan {

/// Columns that it reads, by DiffSynth-Studio's names: the picture, the clip whose motion it has, and what is to be said of this clip.
inline constexpr const char *kDrivingPicture = "animate2_reference_image", *kDrivingClip = "animate2_reference_video",
                            *kDrivingText = "animate2_prompt_ref";
inline const Column kDrivingInputs[] = {
    {.name = kDrivingPicture, .fit = Column::Fit::as_target, .words = {"Wan-Animate-2"}},
    {.name = kDrivingClip, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"Wan-Animate-2"}},
    {.name = kDrivingText, .is = Column::Is::text, .words = {"Wan-Animate-2", "a person dances"}},
};

/// Tells whether a run's columns have it read something. Throws a config Error where they do not go together.
bool reads_driving(const ModelOptions& options);
/// Returns the sizes that what a stage encodes without a transformer has for it.
Config driven_config_of(int64_t latent_channels, int64_t caption_width, int64_t image_width);

class DrivingUnits : public SideModule {
 public:
  /// Throws a data Error for a transformer that is not as Wan-Animate-2's. All must outlive this.
  DrivingUnits(const ModelOptions& options, Components& components, const Config& dit);

  std::string variant(bool has_experts) const override;
  void add_names(Names& names) const override;
  std::string_view picture_before() const override { return reads_ ? kDrivingPicture : ""; }
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  at::Tensor behind_noise(pipeline::Scope& scope, const at::Tensor& noisy_BCFHW) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  pipeline::Unit modulation_unit(const std::string& part);

  const Config& dit_;
  bool reads_ = false;  ///< whether the run has columns for it
};

}  // namespace burnish::models::wan
