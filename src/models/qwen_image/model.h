#pragma once
#include "diffusion/flow_process.h"
#include "models/model.h"
#include "models/qwen_image/config.h"
#include "models/qwen_image/controlnet.h"
#include "models/qwen_image/editing.h"
#include "models/qwen_image/transformer.h"
#include "models/text/qwen.h"
#include "models/vae/causal_autoencoder.h"

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

/// Numbers of Qwen2.5-VL-7B's text part.
text::QwenConfig published_text_config();

class QwenImageModel : public Model {
 public:
  QwenImageModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units() override;
  const diffusion::Process& process() const override { return *process_; }
  diffusion::Guide guide() const override;
  std::vector<int64_t> latent_shape(const Extent& extent) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] / 2 * (latent_shape[2] / 2); }
  int64_t size_division() const override { return 2 * vae_config_.downsampling(); }
  bool scales_references() const override { return options_.references; }
  Extent seen_reference(const Extent& given) const override { return scaled_to(given, reference_area()); }

 private:
  void read_configs(const Sources& sources);
  void fill_names();
  void add_components(const Sources& sources);
  int64_t text_length() const;
  int64_t reference_area() const;
  std::string denoiser_settings(const std::string& part) const;
  void see_references(pipeline::Scope& scope);
  void encode_prompt(pipeline::Scope& scope);
  void encode_edit_prompt(pipeline::Scope& scope, const std::vector<at::Tensor>& seen);
  pipeline::Units prompt_units();
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);

  Config config_;
  text::QwenConfig text_config_;
  text::VisionConfig vision_config_;
  text::PixelRule pixels_;
  std::unique_ptr<Control> control_;
  Naming naming_ = Naming::by_count;
  vae::CausalConfig vae_config_;
  std::unique_ptr<diffusion::FlowProcess> process_;
};

}  // namespace burnish::models::qwen_image
