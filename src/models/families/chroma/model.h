#pragma once
#include "models/families/chroma/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"

namespace burnish::models::chroma {

/// Finds the three components of Chroma among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class ChromaModel : public AssembledModel {
 public:
  ChromaModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;

 private:
  void add_transformer(const Source& source);
  void fill_names();
  void encode_prompt(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);

  Config config_;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::chroma
