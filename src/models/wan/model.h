#pragma once
#include "models/find_components.h"
#include "models/model.h"
#include "models/shared_components.h"
#include "models/wan/frames.h"
#include "models/wan/transformer.h"

namespace burnish::models::wan {

/// The components of Wan among a run's files. A14B has two denoisers: one where there is much noise, one where there is little.
struct Found {
  Source high_noise, low_noise;  ///< models of one denoiser have `high_noise` alone
  bool has_experts = false;      ///< whether the model has two denoisers, of which the files may hold one
  Source text_encoder, vae;
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
  void fill_names(const Found& found);
  void encode_prompt(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope, const std::string& dit);
  void denoise(pipeline::Scope& scope, const std::string& dit);
  void add_frame_units(UnitGroups& groups);
  /// Tells whether the run gives a first frame, to a model that takes it in this way.
  bool gives(FirstFrame how) const { return options_.references && first_frame_ == how; }

  Config config_;
  FirstFrame first_frame_ = FirstFrame::none;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::wan
