#pragma once
#include "diffusion/flow_sampler.h"
#include "models/families/flux/side_module.h"
#include "models/families/flux/step1x.h"
#include "models/families/flux/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::flux {

/// The column in which FLUX.1 Kontext finds reference pictures, by DiffSynth-Studio's name (pipelines/flux_image.py).
inline constexpr const char* kReferenceColumn = "kontext_images";

/// The four components of FLUX.1 found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, text_encoder_2, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

class FluxModel : public AssembledModel {
 public:
  FluxModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override;

 private:
  void add_transformer(const Source& source);
  void add_text_encoders(const Sources& sources);
  void fill_names();
  std::string denoiser_settings(const std::string& part) const;
  diffusion::FlowSamplerConfig sampler_config() const;
  void encode_prompt_1(pipeline::Scope& scope);
  void encode_prompt_2(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  void modulate_first(pipeline::Scope& scope, double guidance);
  void run_first_blocks(pipeline::Scope& scope);
  void finish_blocks(pipeline::Scope& scope);
  void make_side_modules(bool has_dit);
  void add_denoising(UnitGroups& groups, double guidance);
  pipeline::Units denoise_units(double guidance);
  mmdit::HeldLayers part_of(const std::string& name) const;
  Transformer::Conditions conditions(pipeline::Scope& scope, double guidance) const;
  Transformer::Inputs inputs(pipeline::Scope& scope, const std::string& modulation) const;
  at::Tensor encode_text(const std::string& prompt);

  Config config_;
  std::vector<std::unique_ptr<SideModule>> side_modules_;
  std::unique_ptr<Step1x> step1x_;
  int64_t num_first_ = 0;  ///< blocks that were split off
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::flux
