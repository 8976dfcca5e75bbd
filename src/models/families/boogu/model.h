#pragma once
#include "models/families/boogu/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/picture_texts.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::boogu {

/// The components of Boogu-Image found among a run's files; detection reads tensor names only. The vision tower is part of the text
/// encoder's files.
struct Sources {
  Source dit, text_encoder, image_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The name of the published distilled model, by which a model is known that is only named.
inline constexpr const char* kTurbo = "boogu-image-turbo";

class BooguModel : public AssembledModel {
 public:
  BooguModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }
  bool scales_references() const override { return options_.references; }
  Extent seen_reference(const Extent& given) const override;

 private:
  void add_transformer(const Source& source);
  void add_encoders(const Sources& sources);
  void fill_names(bool is_distilled);
  int64_t reference_area() const;
  at::Tensor see(nn::Module& tower, const at::Tensor& image_3HW) const;
  PictureText text_of(pipeline::Scope& scope) const;
  void encode_prompt(pipeline::Scope& scope);
  pipeline::Units prompt_units();
  void give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const;
  pipeline::Units denoise_units();

  Config config_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.has_text = true, .modulates_each = true}};
  text::QwenConfig text_config_;
  text::Qwen3VlVisionConfig vision_config_;
  text::PixelRule pixels_;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::boogu
