#pragma once
#include "models/ernie_image/transformer.h"
#include "models/find_components.h"
#include "models/model.h"
#include "models/shared_components.h"

namespace burnish::models::ernie_image {

/// What stands before the text encoder in a single file of ComfyUI.
inline constexpr const char* kTextInComfyui = "text_encoders.ministral3_3b.transformer.";

/// Finds the three components of ERNIE-Image among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class ErnieImageModel : public Model {
 public:
  ErnieImageModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const std::function<bool(const std::string& path)>& trains) override;

 private:
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void fill_names();
  mmdit::Part part_of(const std::string& name) const;
  void modulate(pipeline::Scope& scope);
  void run_blocks(pipeline::Scope& scope, const std::string& part, const std::string& result);
  pipeline::Units denoise_units();

  Config config_;
  int64_t num_first_ = 0;        ///< layers that were split off
  int64_t num_text_layers_ = 0;  ///< layers of the text encoder that are run: all but the last
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::ernie_image
