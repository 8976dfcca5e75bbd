#pragma once
#include "models/families/minimax_h3/autoencoder_config.h"
#include "models/families/minimax_h3/given_units.h"
#include "models/families/minimax_h3/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/picture_texts.h"
#include "models/parts/shared_components.h"

namespace burnish::models::minimax_h3 {

/// The components of MiniMax-H3 found among a run's files; detection reads tensor names only.
struct Sources {
  Source dit, text_encoder, vision, vae, audio_vae;
};
/// The rows in which original files of a transformer may have query, key and value, which no tensor tells.
enum class FusedRows {
  by_part,  ///< all queries, then all keys, then all values: ComfyUI's files
  by_head,  ///< of each head its three, one after the other: MiniMax's shards
  unknown,  ///< neither a name nor the number of files says which
};
/// Tells by its name whether a transformer is the one that reads references: by its folder or its file, as nothing in it does.
bool is_of_references(const Source& transformer);
/// Finds how the rows of an original file lie, by what can be told of it: MiniMax publishes shards, ComfyUI single files of known names.
FusedRows rows_of(const Source& transformer);
/// Finds the components; where files have two transformers, `of_references` chooses the one that reads references.
Sources find_sources(const ModelFiles& files, bool of_references = false);
Sources find_sources(ModelFiles&& files, bool of_references = false) = delete;  // what is found points into the files

/// The options that say how rows lie, and how the autoencoder takes frames.
inline constexpr const char *kRowsOption = "qkv_rows", *kTilesOption = "vae_tiles";
/// Components and parts, by their names.
inline const std::string kEncoder = "text_encoder", kText = "dit.text";
/// The layers of the text encoder that are run; what is behind them is not read, and what they give goes through no norm.
inline constexpr int64_t kTextLayers = 50;
class MiniMaxH3Model : public AssembledModel {
 public:
  MiniMaxH3Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;
  bool scales_references() const override { return given_->are_references(); }
  Extent seen_reference(const Extent& given) const override { return given_->seen(given); }

 private:
  Source in_our_rows(Source transformer) const;
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void add_autoencoder(const Source& source);
  void fill_names();
  PictureText text_of(pipeline::Scope& scope);
  void encode_prompt(pipeline::Scope& scope);
  void refine(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  pipeline::Units denoise_units();

  Config config_;
  AutoencoderPart autoencoder_;
  std::unique_ptr<GivenUnits> given_;
  std::unique_ptr<SoundUnits> sound_;
};

}  // namespace burnish::models::minimax_h3
