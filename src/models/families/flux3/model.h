#pragma once
#include "models/families/flux3/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::flux3 {

/// The column in which FLUX.3 finds reference pictures, by DiffSynth-Studio's name (pipelines/flux3_image.py).
inline constexpr const char* kReferenceColumn = "edit_image";

/// Finds the three components of FLUX.3 klein among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class Flux3Model : public AssembledModel {
 public:
  Flux3Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void fill_names();
  void encode_prompt(pipeline::Scope& scope);
  void give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const;
  pipeline::Units denoise_units(const std::string& target);

  Config config_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.has_text = true}};
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::flux3
