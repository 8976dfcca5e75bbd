#pragma once
#include "models/families/ernie_image/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::ernie_image {

/// Finds the three components of ERNIE-Image among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class ErnieImageModel : public AssembledModel {
 public:
  ErnieImageModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void fill_names();
  void give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const;

  Config config_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.what = "layers"}};
  int64_t num_text_layers_ = 0;  ///< layers of the text encoder that are run: all but the last
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::ernie_image
