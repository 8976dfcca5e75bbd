#pragma once
#include "models/families/ernie_image/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/first_blocks.h"
#include "models/parts/shared_components.h"

namespace burnish::models::ernie_image {

/// What stands before the text encoder in a single file of ComfyUI.
inline constexpr const char* kTextInComfyui = "text_encoders.ministral3_3b.transformer.";

/// Finds the three components of ERNIE-Image among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class ErnieImageModel : public AssembledModel {
 public:
  ErnieImageModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const std::function<bool(const std::string& path)>& trains) override;

 private:
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void fill_names();
  at::Tensor modulate(pipeline::Scope& scope, const std::string& part);
  at::Tensor run_blocks(pipeline::Scope& scope, const std::string& part, bool goes_on);

  Config config_;
  FirstBlocks first_blocks_{.what = "layers"};
  int64_t num_text_layers_ = 0;  ///< layers of the text encoder that are run: all but the last
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::ernie_image
