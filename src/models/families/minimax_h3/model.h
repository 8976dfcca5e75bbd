#pragma once
#include "models/families/minimax_h3/autoencoder_config.h"
#include "models/families/minimax_h3/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::minimax_h3 {

/// The components of MiniMax-H3 found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, vae;
};
/// The rows in which original files of a transformer may have query, key and value, which no tensor tells.
enum class FusedRows {
  by_part,  ///< all queries, then all keys, then all values: ComfyUI's files
  by_head,  ///< of each head its three, one after the other: MiniMax's shards
  unknown,  ///< neither a name nor the number of files says which
};
/// Finds how the rows of an original file lie, by what can be told of it: MiniMax publishes shards, ComfyUI single files of known names.
FusedRows rows_of(const Source& transformer);
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The option that says how rows lie, and what becomes of the sound of a still.
inline constexpr const char *kRowsOption = "qkv_rows", *kSoundOption = "sound_of_stills", *kTilesOption = "vae_tiles";

class MiniMaxH3Model : public AssembledModel {
 public:
  MiniMaxH3Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;

 private:
  Source in_our_rows(Source transformer) const;
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void add_autoencoder(const Source& source);
  void add_sound();
  void fill_names();
  at::Tensor sound_sigma(const at::Tensor& sigma_B) const;
  void encode_prompt(pipeline::Scope& scope);
  void add_noise_to_sound(pipeline::Scope& scope) const;
  void refine(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope, bool draws);
  pipeline::Units denoise_units(bool draws);

  Config config_;
  AutoencoderPart autoencoder_;
  bool has_sound_ = false;     ///< whether the sequence of a still has tokens of sound
  double sound_shift_ = 0.25;  ///< the shift of the sound's noise over that of frames
};

}  // namespace burnish::models::minimax_h3
