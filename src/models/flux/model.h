#pragma once
#include "diffusion/flow_process.h"
#include "models/file_model.h"
#include "models/flux/config.h"
#include "models/flux/transformer.h"
#include "models/text/clip.h"
#include "models/text/t5.h"
#include "models/vae/autoencoder_kl.h"
#include "tokenizers/tokenizer.h"

namespace burnish::models::flux {

/// The four components of FLUX.1 found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, text_encoder_2, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class FluxModel : public FileModel {
 public:
  FluxModel(const ModelFiles& files, const ModelOptions& options);
  std::string_view family() const override { return "flux"; }
  std::string variant() const override { return config_.guidance_embeds ? "FLUX.1-dev" : "FLUX.1-schnell"; }
  std::vector<std::string> parts(const std::string& component) const override;
  std::string split_first_blocks(const std::function<bool(const std::string& path)>& trains) override;
  std::vector<std::string> high_precision(const std::string& component) const override;
  std::string denoiser() const override { return "dit"; }
  UnitGroups units() override;
  std::vector<int64_t> latent_shape(int64_t height, int64_t width) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] / 2 * (latent_shape[2] / 2); }
  int64_t size_division() const override { return 2 * vae_config_.downsampling(); }
  const diffusion::Process& process() const override { return *process_; }
  std::map<std::string, std::vector<int64_t>> value_shapes() const override;
  std::map<std::string, std::string> foreign_values() const override {
    return {{"latents", "input_latents"}, {"text_embedding", "prompt_emb"}, {"pooled_embedding", "pooled_prompt_emb"}};
  }
  std::vector<std::string> prompt_values() const override { return {"text_embedding", "pooled_embedding"}; }
  LayerNames layer_names(const std::string& component) const override;
  std::vector<std::string> target_names(const std::string& component, const std::string& path) const override;
  std::string default_lora_targets(const std::string& component) const override;

 private:
  std::unique_ptr<nn::Module> build(const std::string& component, const at::TensorOptions& options) const override;
  void initialise(nn::Module& denoiser) const override { static_cast<Transformer&>(denoiser).initialise(options_.seed); }
  std::string settings(const std::string& component) const override;
  std::filesystem::path tokenizer_folder(const std::string& component) const override;
  void load_tokenizer(const std::string& component) override;
  diffusion::FlowSamplerConfig sampler_config() const;
  void encode_prompt_1(pipeline::Scope& scope);
  void encode_prompt_2(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  void modulate_first(pipeline::Scope& scope);
  void run_first_blocks(pipeline::Scope& scope);
  void finish_blocks(pipeline::Scope& scope);
  pipeline::Units denoise_units();
  Part part_of(const std::string& name) const;
  Transformer::Conditions conditions(pipeline::Scope& scope) const;
  Transformer::Inputs inputs(pipeline::Scope& scope, const std::string& modulation) const;

  Config config_;
  int64_t num_first_ = 0;  ///< blocks that were split off
  text::ClipConfig clip_config_;
  text::T5Config t5_config_;
  vae::KlConfig vae_config_;
  std::unique_ptr<diffusion::FlowProcess> process_;
  std::unique_ptr<tokenizers::Tokenizer> tokenizer_, tokenizer_2_;
};

}  // namespace burnish::models::flux
