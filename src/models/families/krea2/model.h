#pragma once
#include "models/families/krea2/editing.h"
#include "models/families/krea2/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::krea2 {

/// The components of Krea 2 found among a run's files; detection reads tensor names only. The vision tower is part of the text encoder's
/// files.
struct Sources {
  Source dit, text_encoder, image_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The name of the published distilled model, by which a model is known that is only named.
inline constexpr const char* kTurbo = "krea2-turbo";

class Krea2Model : public AssembledModel {
 public:
  Krea2Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }
  bool scales_references() const override { return has_frames(); }
  Extent seen_reference(const Extent& given) const override { return has_frames() ? fitted(given, reference_area()) : given; }

 private:
  void add_transformer(const Source& source);
  void add_encoders(const Sources& sources, const text::QwenConfig& text_config);
  void fill_names(bool is_distilled);
  bool has_frames() const { return options_.references && form_ == Form::frames; }
  int64_t reference_area() const { return models::reference_area(options_, kReferenceArea); }
  void check_layers() const;
  PictureText edit_text(pipeline::Scope& scope, const std::vector<at::Tensor>& seen) const;
  at::Tensor see(nn::Module& tower, const at::Tensor& image_3HW, size_t num_pictures) const;
  void encode_prompt(pipeline::Scope& scope);
  pipeline::Units prompt_units();
  void give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const;
  pipeline::Units denoise_units();

  Config config_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.has_text = true}};
  std::vector<int64_t> read_layers_;  ///< layers of the text encoder whose states are read
  int64_t num_text_layers_ = 0;       ///< layers that the text encoder has
  text::Qwen3VlVisionConfig vision_config_;
  text::PixelRule pixels_;
  Form form_ = Form::frames;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::krea2
