#pragma once
#include "models/families/anima/conditioner.h"
#include "models/families/anima/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::anima {

/// The sources of Anima's components.
struct AnimaSources {
  Source dit, conditioner, text_encoder, vae;
};

/// Finds the components of Anima among a run's files; detection reads tensor names only.
AnimaSources find_sources(const ModelFiles& files);
AnimaSources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// Returns the numbers of Qwen3-0.6B.
text::QwenConfig qwen3_06b();

class AnimaModel : public AssembledModel {
 public:
  AnimaModel(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void add_transformer(const Source& source);
  void add_conditioner(const Source& source);
  void fill_names();
  void read_tokens(pipeline::Scope& scope);
  void condition(pipeline::Scope& scope);
  at::Tensor modulate(pipeline::Scope& scope, const std::string& part);
  void give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const;

  Config config_;
  ConditionerConfig conditioner_;
  SplitDenoiser<Transformer> denoiser_{components_, options_, {.modulates_each = true}};
  int64_t num_text_layers_ = 0;
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::anima
