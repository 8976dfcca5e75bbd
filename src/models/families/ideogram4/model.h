#pragma once
#include <set>
#include <string>

#include "models/families/ideogram4/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::ideogram4 {

/// The components of Ideogram 4 found among a run's files; detection reads tensor names only. Of the two transformers one reads a text and
/// one does not; guidance leads away from what the latter predicts.
struct Sources {
  Source dit, away, text_encoder, vae;
};
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The prefix of the tensors of the transformer without a text in a single file that holds the whole model.
inline constexpr const char* kAwayInSingleFile = "model.unconditional_diffusion_model.";

/// The option that says with which scale the last steps are guided.
inline constexpr const char* kLastScale = "last_cfg_scale";

class Ideogram4Model : public AssembledModel {
 public:
  Ideogram4Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  double guidance_at(double scale, int64_t step, int64_t num_steps) const override;

 private:
  void add_transformer(const std::string& name, const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void fill_names();
  void encode_prompt(pipeline::Scope& scope);
  void embed_text(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope, const std::string& part);
  void denoise(pipeline::Scope& scope);
  void denoise_without_text(pipeline::Scope& scope, const std::string& part);
  pipeline::Units units_without_text(const std::string& component);

  Config config_;
  AutoencoderPart autoencoder_;
  std::set<std::string> said_;  ///< sentences of which each is said once
};

}  // namespace burnish::models::ideogram4
