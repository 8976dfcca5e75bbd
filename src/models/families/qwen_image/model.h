#pragma once
#include "models/families/qwen_image/controlnet.h"
#include "models/families/qwen_image/editing.h"
#include "models/families/qwen_image/layers.h"
#include "models/families/qwen_image/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::qwen_image {

/// The components of Qwen-Image found among a run's files; detection reads tensor names only. The vision tower is part of the text
/// encoder's files.
struct Sources {
  Source dit, text_encoder, image_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The name of a tensor by which ComfyUI's files of Qwen-Image-Edit-2511 say zero_cond_t.
inline constexpr const char* kZeroMark = "__index_timestep_zero__";

class QwenImageModel : public AssembledModel {
 public:
  QwenImageModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  diffusion::Guide guide() const override;
  bool scales_references() const override { return edits(); }
  Extent seen_reference(const Extent& given) const override { return edits() ? scaled_to(given, reference_area()) : given; }

 private:
  /// Tells whether its reference pictures are those of Edit.
  bool edits() const { return options_.references && !is_layered_; }
  void read_layers(const Sources& sources);
  void read_editing(const Sources& sources);
  void fill_names();
  void add_transformer(const Source& source);
  void add_encoders(const Sources& sources);
  int64_t text_length() const;
  int64_t reference_area() const { return models::reference_area(options_, kReferenceArea); }
  at::Tensor see(nn::Module& tower, const at::Tensor& image_3HW, size_t num_pictures) const;
  void encode_prompt(pipeline::Scope& scope);
  void encode_edit_prompt(pipeline::Scope& scope, const std::vector<at::Tensor>& seen);
  pipeline::Units prompt_units();
  pipeline::Units reference_units(const Encode& encode);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);

  Config config_;
  bool is_layered_ = false;     ///< by the transformer, or where it is not there by the autoencoder
  bool without_whole_ = false;  ///< whether the layers are made without the whole picture before them
  text::QwenConfig text_config_;
  text::VisionConfig vision_config_;
  text::PixelRule pixels_;
  std::unique_ptr<Control> control_;
  Naming naming_ = Naming::by_count;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::qwen_image
