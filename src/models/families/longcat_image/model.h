#pragma once
#include "models/families/longcat_image/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/picture_texts.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::longcat_image {

/// The column in which the picture to change is found, and the area that it is scaled to.
inline constexpr const char* kReferenceColumn = "edit_image";
inline constexpr int64_t kReferenceArea = 1024 * 1024;

/// The components found among a run's files. The vision tower is part of the text encoder's files.
struct Sources {
  Source dit, text_encoder, image_encoder, vae;
};
/// Finds the components among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class LongCatImageModel : public AssembledModel {
 public:
  LongCatImageModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  diffusion::Guide guide() const override;
  bool scales_references() const override { return options_.references; }
  Extent seen_reference(const Extent& given) const override { return options_.references ? scaled_up_to(given, reference_area()) : given; }
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void add_transformer(const Source& source);
  void add_encoders(const Sources& sources, const text::QwenConfig& text_config);
  void fill_names();
  int64_t reference_area() const { return models::reference_area(options_, kReferenceArea); }
  at::Tensor see(nn::Module& tower, const at::Tensor& image_3HW) const;
  void encode_prompt(pipeline::Scope& scope);
  void encode_edit_prompt(pipeline::Scope& scope, const std::vector<at::Tensor>& seen);
  pipeline::Units prompt_units();

  Config config_;
  int64_t num_text_layers_ = 0;
  text::VisionConfig vision_config_;
  text::PixelRule pixels_;
  AutoencoderPart autoencoder_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.modulates_each = true}};
};

}  // namespace burnish::models::longcat_image
