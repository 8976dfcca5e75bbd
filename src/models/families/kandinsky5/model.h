#pragma once
#include "models/families/kandinsky5/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/picture_texts.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::kandinsky5 {

/// The column of the picture that is changed.
inline constexpr const char* kReferenceColumn = "edit_image";

/// The components found among a run's files, by the names of tensors: the transformer, Qwen2.5-VL with its vision tower, CLIP-L and the
/// autoencoder.
struct Sources {
  Source dit, text_encoder, image_encoder, text_encoder_2, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class Kandinsky5Model : public AssembledModel {
 public:
  Kandinsky5Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void check_references(const Source& dit) const;
  void add_transformer(const Source& source);
  void add_encoders(const Sources& sources);
  void fill_names();
  at::Tensor see(nn::Module& tower, const at::Tensor& image_3HW) const;
  PictureText text_with_picture(const std::string& prompt, const std::vector<at::Tensor>& seen) const;
  void encode_by_qwen_with_picture(pipeline::Scope& scope);
  void encode_by_clip(pipeline::Scope& scope);
  pipeline::Units prompt_units();

  Config config_;
  bool sees_ = false;  ///< whether pictures that are changed are read
  text::QwenConfig qwen_;
  text::VisionConfig vision_;
  text::PixelRule pixels_;
  text::ClipConfig clip_;
  AutoencoderPart autoencoder_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.modulates_each = true}};
};

}  // namespace burnish::models::kandinsky5
