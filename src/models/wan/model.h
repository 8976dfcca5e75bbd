#pragma once
#include <array>

#include "models/find_components.h"
#include "models/model.h"
#include "models/shared_components.h"
#include "models/wan/control.h"
#include "models/wan/frames.h"
#include "models/wan/further.h"
#include "models/wan/motion.h"
#include "models/wan/vace.h"

namespace burnish::models::wan {

/// The components of Wan among a run's files. A14B has two denoisers: one where there is much noise, one where there is little.
struct Found {
  Source high_noise, low_noise;  ///< models of one denoiser have `high_noise` alone
  std::array<Source, 2> vace;    ///< VACE's module beside each of them
  bool has_vace() const { return vace[0].entry || vace[1].entry; }
  bool has_experts = false;  ///< whether the model has two denoisers, of which the files may hold one
  Source text_encoder, vae, motion, animate;
  Source image_encoder;  ///< CLIP, which some of Wan 2.1 see a clip's first frame with, one its last too
};
/// Finds them; detection reads tensor names, and tells experts by folder, file or component name.
Found find_sources(const ModelFiles& files);
Found find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class WanModel : public Model {
 public:
  WanModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;

 private:
  void add_transformer(const std::string& name, const Source& source);
  void add_image_encoder(const Found& found);
  void read_vace(const Found& found);
  void add_vace(const std::string& name, const Source& source);
  void fill_names(const Found& found);
  void encode_prompt(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope, const std::string& dit);
  void denoise(pipeline::Scope& scope, const std::string& dit);
  void add_frame_units(UnitGroups& groups);
  at::Tensor image_states(pipeline::Scope& scope, int64_t batch_size) const;
  void add_control_units(UnitGroups& groups);
  void add_motion(const Found& found);
  void add_vace_units(UnitGroups& groups, const std::string& dit);
  void add_further(const Found& found);
  /// Tells whether the run gives a first frame, to a model that takes it in this way.
  bool gives(FirstFrame how) const { return options_.references && first_frame_ == how; }
  /// Tells whether the run gives a last frame too, to a model that takes it; one with places for both takes no first frame alone.
  bool gives_last() const {
    return gives(FirstFrame::beside) && (config_.image_places > 0 || options_.extra_inputs.contains(std::string(kLastFrame.column)));
  }
  std::function<at::Tensor(const at::Tensor& image_B3HW)> seeing();
  /// Tells whether CLIP sees the run's reference picture.
  bool sees_reference() const { return reads_image() && control_->gives_reference() && components_.has("image_encoder"); }
  bool reads_image() const { return config_.image_width > 0; }

  Config config_;
  FirstFrame first_frame_ = FirstFrame::none;
  VaceConfig vace_config_;
  std::unique_ptr<Control> control_;
  std::vector<std::unique_ptr<Further>> further_;
  bool reads_motion_ = false;  ///< whether the run has a column for the motion controller
  bool reads_vace_ = false;    ///< whether the run has columns for VACE
  AutoencoderPart autoencoder_;
  ClipVisionConfig clip_config_;
};

}  // namespace burnish::models::wan
