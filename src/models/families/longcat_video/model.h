#pragma once
#include "models/families/longcat_video/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/held_frame.h"

namespace burnish::models::longcat_video {

/// Finds the transformer, umT5 and the autoencoder of clips among a run's files, by the names of tensors.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class LongCatVideoModel : public AssembledModel {
 public:
  LongCatVideoModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  diffusion::Guide guide() const override;

 private:
  void add_transformer(const Source& source);
  void fill_names();
  void fill_latent_space(const vae::CausalConfig& autoencoder);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  void add_given_frames(UnitGroups& groups);
  /// Returns the visits at which first frames are given.
  GivenAt given_at() const { return {kGivesFirst, options_.get<double>(kFirstShare)}; }

  Config config_;
  AutoencoderPart autoencoder_;
  int64_t num_given_ = 0;  ///< first frames of a clip that a run gives
};

}  // namespace burnish::models::longcat_video
