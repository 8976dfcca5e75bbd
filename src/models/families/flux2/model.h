#pragma once
#include "models/families/flux2/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "models/parts/split_denoiser.h"

namespace burnish::models::flux2 {

/// The column in which FLUX.2 finds reference pictures, by DiffSynth-Studio's name (pipelines/flux2_image.py).
inline constexpr const char* kReferenceColumn = "edit_image";

/// Tells whether a text encoder that was found is Mistral's, and not Qwen3.
bool is_mistral(const Source& text_encoder);

/// Finds the three components of FLUX.2 among a run's files; detection reads tensor names only.
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// Returns mu of the shift when drawing in so many steps (diffusers: compute_empirical_mu of pipeline_flux2_klein.py).
double empirical_mu(int64_t num_image_tokens, int64_t num_steps);

/// Returns the option system_text: in which of two forms FLUX.2 dev's text encoder is told what it is for.
Option system_text_option();

class Flux2Model : public AssembledModel {
 public:
  Flux2Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  std::string split_first_blocks(const Trains& trains) override { return denoiser_.split(trains); }

 private:
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& dit, const Source& source);
  void fill_names();
  bool is_in_one_line() const;
  void encode_prompt(pipeline::Scope& scope);
  void give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const;
  pipeline::Units denoise_units(double guidance);

  Config config_;
  bool reads_by_mistral_ = false;  ///< whether texts are read by Mistral, as FLUX.2 dev's are, and not by Qwen3
  SplitDenoiser<Transformer> denoiser_{components_, options_};
  AutoencoderPart autoencoder_;
};

}  // namespace burnish::models::flux2
