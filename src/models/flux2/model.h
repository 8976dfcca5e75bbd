#pragma once
#include "diffusion/flow_process.h"
#include "models/flux2/config.h"
#include "models/flux2/transformer.h"
#include "models/model.h"
#include "models/text/qwen.h"
#include "models/vae/patch_autoencoder.h"

namespace burnish::models::flux2 {

/// Where it finds reference pictures, as DiffSynth-Studio calls them (pipelines/flux2_image.py).
inline constexpr const char* kReferenceColumn = "edit_image";

/// The three components of FLUX.2 klein found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// mu of the shift when drawing in so many steps (diffusers: compute_empirical_mu of pipeline_flux2_klein.py).
double empirical_mu(int64_t num_image_tokens, int64_t num_steps);

class Flux2Model : public Model {
 public:
  Flux2Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units() override;
  const diffusion::Process& process() const override { return *process_; }
  std::vector<int64_t> latent_shape(const Extent& extent) const override;
  int64_t num_tokens(at::IntArrayRef latent_shape) const override { return latent_shape[1] * latent_shape[2]; }
  int64_t size_division() const override { return vae_config_.downsampling(); }
  std::string split_first_blocks(const std::function<bool(const std::string& path)>& trains) override;

 private:
  void read_configs(const Sources& sources);
  void fill_names();
  void add_components(const Sources& sources);
  int64_t text_length() const;
  void encode_prompt(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void run_blocks(pipeline::Scope& scope, const std::string& part, const std::string& result);
  pipeline::Units denoise_units();

  Config config_;
  int64_t num_first_ = 0;  ///< blocks that were split off
  text::QwenConfig text_config_;
  vae::PatchConfig vae_config_;
  std::unique_ptr<diffusion::FlowProcess> process_;
};

}  // namespace burnish::models::flux2
