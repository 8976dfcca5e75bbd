#pragma once
#include "diffusion/flow_process.h"
#include "models/flux/config.h"
#include "models/flux/extras.h"
#include "models/flux/step1x.h"
#include "models/flux/transformer.h"
#include "models/model.h"
#include "models/text/clip.h"
#include "models/text/t5.h"
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::flux {

/// Where FLUX.1 Kontext finds reference pictures, as DiffSynth-Studio calls them (pipelines/flux_image.py).
inline constexpr const char* kReferenceColumn = "kontext_images";

/// The four components of FLUX.1 found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, text_encoder_2, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class FluxModel : public Model {
 public:
  FluxModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units() override;
  const diffusion::Process& process() const override { return *process_; }
  std::vector<int64_t> latent_shape(const Extent& extent) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] / 2 * (latent_shape[2] / 2); }
  int64_t size_division() const override { return 2 * vae_config_.downsampling(); }
  std::string split_first_blocks(const std::function<bool(const std::string& path)>& trains) override;

 private:
  void read_configs(const Sources& sources);
  void fill_names();
  void add_components(const Sources& sources);
  std::string denoiser_settings(const std::string& part) const;
  diffusion::FlowSamplerConfig sampler_config() const;
  int64_t clip_length() const { return std::min<int64_t>(77, clip_config_.max_positions); }
  int64_t t5_length(const tokenizers::Tokenizer& tokenizer) const;
  void encode_prompt_1(pipeline::Scope& scope);
  void encode_prompt_2(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  void modulate_first(pipeline::Scope& scope, double guidance);
  void run_first_blocks(pipeline::Scope& scope);
  void finish_blocks(pipeline::Scope& scope);
  pipeline::Units denoise_units(double guidance);
  Part part_of(const std::string& name) const;
  Transformer::Conditions conditions(pipeline::Scope& scope, double guidance) const;
  Transformer::Inputs inputs(pipeline::Scope& scope, const std::string& modulation) const;
  Extras::Encoding encoding();

  Config config_;
  std::unique_ptr<Extras> extras_;
  std::unique_ptr<Step1x> step1x_;
  int64_t num_first_ = 0;  ///< blocks that were split off
  text::ClipConfig clip_config_;
  text::T5Config t5_config_;
  vae::KlConfig vae_config_;
  std::unique_ptr<diffusion::FlowProcess> process_;
};

}  // namespace burnish::models::flux
