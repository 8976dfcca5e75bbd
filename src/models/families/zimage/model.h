#pragma once
#include "models/families/zimage/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"

namespace burnish::models::zimage {

/// Finds the three components of Z-Image among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class ZImageModel : public AssembledModel {
 public:
  ZImageModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override;

 private:
  void add_transformer(const Source& source);
  void fill_names();
  HeldLayers part_of(const std::string& name) const;
  Transformer::Inputs inputs(pipeline::Scope& scope) const;
  void encode_prompt(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  void run_first_blocks(pipeline::Scope& scope);
  void finish_blocks(pipeline::Scope& scope);
  pipeline::Units denoise_units();

  Config config_;
  std::optional<int64_t> split_;  ///< main layers before the split, where there is one
  int64_t num_text_layers_ = 0;   ///< layers of the text encoder that are run: all but the last
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::zimage
