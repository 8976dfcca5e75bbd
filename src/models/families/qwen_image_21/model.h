#pragma once
#include "models/families/qwen_image_21/control.h"
#include "models/families/qwen_image_21/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/picture_texts.h"
#include "models/parts/shared_components.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::qwen_image_21 {

/// The components of Qwen-Image-2.1 found among a run's files; detection reads tensor names only. The vision tower is part of the text
/// encoder's files.
struct Sources {
  Source dit, text_encoder, image_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The column in which reference pictures are found, by DiffSynth-Studio's name (pipelines/qwen_image_21.py).
inline constexpr const char* kReferenceColumn = "edit_image";
/// The area of reference pictures, as diffusers has it.
inline constexpr int64_t kReferenceArea = 1024 * 1024;

class QwenImage21Model : public AssembledModel {
 public:
  QwenImage21Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override;
  bool scales_references() const override { return options_.references; }
  Extent seen_reference(const Extent& given) const override { return scaled_to(given, reference_area()); }

 private:
  void add_transformer(const Source& source);
  void add_encoders(const Sources& sources, const text::QwenConfig& text_config);
  void fill_names();
  int64_t reference_area() const { return models::reference_area(options_, kReferenceArea); }
  PictureText text_of(pipeline::Scope& scope, const std::vector<at::Tensor>& seen) const;
  at::Tensor see(nn::Module& tower, const at::Tensor& image_3HW, size_t num_pictures) const;
  void encode_prompt(pipeline::Scope& scope);
  pipeline::Units prompt_units();
  void give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const;

  Config config_;
  SplitDenoiser<Transformer> denoiser_{components_, options_};
  int64_t num_text_layers_ = 0;
  text::Qwen3VlVisionConfig vision_config_;
  text::PixelRule pixels_;
  AutoencoderPart autoencoder_;
  std::unique_ptr<Control> control_;
};

}  // namespace burnish::models::qwen_image_21
