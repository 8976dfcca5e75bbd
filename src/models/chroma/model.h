#pragma once
#include "diffusion/flow_process.h"
#include "models/chroma/config.h"
#include "models/chroma/transformer.h"
#include "models/model.h"
#include "models/text/t5.h"
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::chroma {

/// The three components of Chroma found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class ChromaModel : public Model {
 public:
  ChromaModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units() override;
  const diffusion::Process& process() const override { return *process_; }
  std::vector<int64_t> latent_shape(const Extent& extent) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] / 2 * (latent_shape[2] / 2); }
  int64_t size_division() const override { return 2 * vae_config_.downsampling(); }

 private:
  void read_configs(const Sources& sources);
  void fill_names();
  void add_components(const Sources& sources);
  int64_t text_length(const tokenizers::Tokenizer& tokenizer) const;
  void encode_prompt(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);

  Config config_;
  text::T5Config text_config_;
  vae::KlConfig vae_config_;
  std::unique_ptr<diffusion::FlowProcess> process_;
};

}  // namespace burnish::models::chroma
