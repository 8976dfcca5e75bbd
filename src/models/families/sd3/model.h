#pragma once
#include "models/families/sd3/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::sd3 {

/// The components of Stable Diffusion 3.5 found among a run's files, by the names of tensors: the transformer, CLIP-L, OpenCLIP's bigG, T5
/// and the autoencoder.
struct Sources {
  Source dit, text_encoder, text_encoder_2, text_encoder_3, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class Sd3Model : public AssembledModel {
 public:
  Sd3Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void read_configs(const Sources& sources);
  void add_transformer(const Source& source);
  void add_text_encoders(const Sources& sources);
  void fill_names();
  void encode_by_clip(pipeline::Scope& scope, const std::string& encoder, const std::string& behind);
  void encode_by_t5(pipeline::Scope& scope);
  void join_texts(pipeline::Scope& scope) const;
  pipeline::Units prompt_units();

  Config config_;
  text::ClipConfig clip_, big_clip_;
  text::T5Config t5_;
  AutoencoderPart autoencoder_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.modulates_each = true}};
};

}  // namespace burnish::models::sd3
