#pragma once
#include "models/find_components.h"
#include "models/flux2/transformer.h"
#include "models/model.h"
#include "models/shared_components.h"

namespace burnish::models::flux2 {

/// The column in which FLUX.2 finds reference pictures, by DiffSynth-Studio's name (pipelines/flux2_image.py).
inline constexpr const char* kReferenceColumn = "edit_image";

/// Finds the three components of FLUX.2 klein among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// Returns mu of the shift when drawing in so many steps (diffusers: compute_empirical_mu of pipeline_flux2_klein.py).
double empirical_mu(int64_t num_image_tokens, int64_t num_steps);

class Flux2Model : public Model {
 public:
  Flux2Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const std::function<bool(const std::string& path)>& trains) override;

 private:
  void add_transformer(const Source& source);
  void fill_names();
  mmdit::Part part_of(const std::string& name) const;
  void encode_prompt(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void run_blocks(pipeline::Scope& scope, const std::string& part, const std::string& result);
  pipeline::Units denoise_units();

  Config config_;
  int64_t num_first_ = 0;  ///< blocks that were split off
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::flux2
