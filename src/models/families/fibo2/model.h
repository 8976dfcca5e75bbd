#pragma once
#include "models/families/fibo2/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/picture_texts.h"
#include "models/parts/shared_components.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::fibo2 {

/// The components of FIBO 2 found among a run's files; detection reads tensor names only. The vision tower is part of the text encoder's
/// files.
struct Sources {
  Source dit, text_encoder, image_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The column in which reference pictures are found, as other families have it. They are of the sizes that the run cuts pictures to.
inline constexpr const char* kReferenceColumn = "edit_image";
/// Returns the sides of a picture as the vision tower sees it: none longer than 768 pixels (Pillow: Image.thumbnail).
Extent seen_size(const Extent& picture);

class Fibo2Model : public AssembledModel {
 public:
  Fibo2Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void add_transformer(const Source& source);
  void add_encoders(const Sources& sources, const text::QwenConfig& text_config);
  void fill_names();
  at::Tensor see(nn::Module& tower, const at::Tensor& image_3HW) const;
  PictureText text_of(pipeline::Scope& scope) const;
  void encode_prompt(pipeline::Scope& scope);
  pipeline::Units prompt_units();
  pipeline::Units denoise_units();

  Config config_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.what = "layers", .has_text = true}};
  std::vector<int64_t> read_layers_;  ///< layers of the text encoder whose states are read
  text::Qwen3VlVisionConfig vision_config_;
  text::PixelRule pixels_;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::fibo2
