#pragma once
#include "models/families/wan/found.h"
#include "models/families/wan/frames.h"
#include "models/families/wan/side_module.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::wan {

class WanModel : public AssembledModel {
 public:
  WanModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  diffusion::Guide guide() const override;

 private:
  void make_side_modules(const Found& found);
  void add_components(const Found& found);
  void add_transformer(const std::string& name, const Source& source);
  void add_image_encoder(const Found& found);
  void fill_names(const Found& found);
  void modulate(pipeline::Scope& scope, const std::string& dit);
  at::Tensor predicted(pipeline::Scope& scope, const std::string& dit, bool is_silent = false);
  at::Tensor behind_noise(pipeline::Scope& scope, const at::Tensor& noisy_BCFHW);
  at::Tensor image_states(pipeline::Scope& scope, int64_t batch_size) const;
  void add_frame_units(UnitGroups& groups, const ModelParts& parts);
  std::function<at::Tensor(const at::Tensor& image_B3HW)> seeing();
  /// Tells whether the run gives a first frame, to a model that takes it in this way.
  bool gives(FirstFrame how) const { return options_.references && first_frame_ == how; }
  /// Tells whether the run gives a last frame too, to a model that takes it; one with places for both takes no first frame alone.
  bool gives_last() const {
    return gives(FirstFrame::beside) && (config_.extras.image_places > 0 || options_.extra_inputs.contains(kLastFrame.name));
  }
  /// Returns which frames the run gives; the last one where `may_have_last` says so.
  GivenFrames given_frames(bool may_have_last) const {
    return {.has_column = has_start_ && options_.extra_inputs.contains(kStartFrame.name), .has_last = may_have_last};
  }
  /// Returns the visits at which a first frame is held.
  GivenAt held_at() const { return {kGivesFirst, options_.get<double>(kFirstShare)}; }
  bool reads_image() const { return config_.image_width > 0; }

  Config config_;
  FirstFrame first_frame_ = FirstFrame::none;
  bool has_start_ = false;  ///< whether a column may have pictures in place of a clip's first frame
  std::vector<std::unique_ptr<SideModule>> side_modules_;
  AutoencoderPart autoencoder_;
  ClipVisionConfig clip_config_;
};

}  // namespace burnish::models::wan
