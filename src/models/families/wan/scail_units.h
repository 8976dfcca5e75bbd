#pragma once
#include "base/column.h"
#include "models/families/wan/side_module.h"

// SCAIL-2 (arXiv 2606.10804): a person of a picture moves as one in a driving clip does, or stands in for this one in it.
namespace burnish::models::wan {

/// Columns that it reads: reference pictures, the main one first; masks that show in colours who is where in each of them; the driving clip
/// and masks of it, in which a person has the colour that it has in the pictures; and 1 where it is replaced in the driving clip, else 0.
inline constexpr const char *kCastPictures = "scail2_reference_image", *kPictureMasks = "scail2_reference_mask",
                            *kActedClip = "scail2_driving_video", *kActedMasks = "scail2_driving_mask", *kReplaces = "scail2_replace";
inline const Column kScailInputs[] = {
    {.name = kCastPictures, .fit = Column::Fit::as_target, .words = {"SCAIL-2"}},
    {.name = kPictureMasks, .fit = Column::Fit::as_target, .words = {"SCAIL-2"}},
    {.name = kActedClip, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"SCAIL-2"}},
    {.name = kActedMasks, .is = Column::Is::clip, .fit = Column::Fit::as_target, .words = {"SCAIL-2"}},
    {.name = kReplaces, .is = Column::Is::numbers, .fit = Column::Fit::alike, .words = {"SCAIL-2", "0"}},
};

/// Tells whether a run's columns have it read something. Throws a config Error where they do not go together.
bool reads_scail(const ModelOptions& options);
/// Returns the sizes that what a stage encodes without a transformer has for it.
Config scail_config_of(int64_t latent_channels, int64_t caption_width, int64_t image_width);

class ScailUnits : public SideModule {
 public:
  /// Throws a data Error for a transformer that is not as SCAIL-2's. All must outlive this.
  ScailUnits(const ModelOptions& options, Components& components, const Config& dit);

  std::string variant(bool has_experts) const override;
  void add_names(Names& names) const override;
  void add_units(UnitGroups& groups, const ModelParts& parts) override;
  void give(pipeline::Scope& scope, const std::string& dit, Transformer::Inputs& in) override;

 private:
  bool is_there() const { return dit_.extras.area_channels > 0; }

  const Config& dit_;
  bool reads_ = false;  ///< whether the run has columns for it
};

}  // namespace burnish::models::wan
