#pragma once
#include "diffusion/flow_process.h"
#include "models/model.h"
#include "models/text/qwen.h"
#include "models/vae/autoencoder_kl.h"
#include "models/zimage/config.h"
#include "models/zimage/transformer.h"

namespace burnish::models::zimage {

/// The three components of Z-Image found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class ZImageModel : public Model {
 public:
  ZImageModel(const ModelFiles& files, const ModelOptions& options);
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
  /// Layers of the text encoder that are run: all but the last.
  int64_t num_text_layers() const { return std::max<int64_t>(text_config_.num_layers - 1, 0); }
  int64_t text_length() const;
  Part part_of(const std::string& name) const;
  Transformer::Inputs inputs(pipeline::Scope& scope) const;
  void encode_prompt(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  void run_first_blocks(pipeline::Scope& scope);
  void finish_blocks(pipeline::Scope& scope);
  pipeline::Units denoise_units();

  Config config_;
  std::optional<int64_t> split_;  ///< main layers before the split, where there is one
  text::QwenConfig text_config_;
  vae::KlConfig vae_config_;
  std::unique_ptr<diffusion::FlowProcess> process_;
};

}  // namespace burnish::models::zimage
