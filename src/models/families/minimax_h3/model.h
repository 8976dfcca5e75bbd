#pragma once
#include "models/families/minimax_h3/autoencoder_config.h"
#include "models/families/minimax_h3/sound_units.h"
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
/// Finds how the rows of an original file lie, by what can be told of it: MiniMax publishes shards, ComfyUI single files of known names.
FusedRows rows_of(const Source& transformer);
Sources find_sources(const ModelFiles& files);
Sources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// The options that say how rows lie, and how the autoencoder takes frames.
inline constexpr const char *kRowsOption = "qkv_rows", *kTilesOption = "vae_tiles";
/// The columns that ask for a clip's first frame, and for its last one too, as DiffSynth-Studio calls them. Where a row names a picture in
/// the latter, this is the last frame; else it is the clip's own, as the first one always is.
inline constexpr const char* kFirstFrameColumn = "input_image";
inline const Column kLastFrame{.name = "end_image", .fit = Column::Fit::as_target, .words = {"a model that goes on from frames"}};

/// Components and parts, by their names.
inline const std::string kEncoder = "text_encoder", kVae = "vae", kText = "dit.text";
/// The layers of the text encoder that are run; what is behind them is not read, and what they give goes through no norm.
inline constexpr int64_t kTextLayers = 50;
/// The tower that sees given frames, and the values that are made of these: the tokens of a text that stand for them, the places of all
/// tokens within the text, and latents.
inline const std::string kTower = "image_encoder", kSeenFrames = "seen_frames", kSeenEmbedding = "seen_embedding",
                         kSeenTokens = "seen_tokens", kTextPlaces = "text_places", kSeenPlaces = "seen_places", kGiven = "given_latents";
/// The noise of given frames, of which the model was made with a little.
inline constexpr double kGivenSigma = 0.001;

class MiniMaxH3Model : public AssembledModel {
 public:
  MiniMaxH3Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;

 private:
  Source in_our_rows(Source transformer) const;
  void add_transformer(const Source& source);
  void add_text_encoder(const Source& source, const text::QwenConfig& config);
  void add_autoencoder(const Source& source);
  void fill_names();
  void add_frames(const Source& vision);
  bool gives_last() const { return options_.extra_inputs.contains(kLastFrame.name); }
  std::vector<std::string> given_columns() const;
  nn::Tensors given_frames(const pipeline::Scope& scope) const;
  pipeline::Unit seeing_unit();
  pipeline::Unit given_unit();
  PictureText text_of(pipeline::Scope& scope);
  void encode_prompt(pipeline::Scope& scope);
  void refine(pipeline::Scope& scope);
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope, bool draws);
  pipeline::Units denoise_units(bool draws);

  Config config_;
  AutoencoderPart autoencoder_;
  text::Qwen3VlVisionConfig vision_config_;
  text::PixelRule pixels_;  ///< how given frames are shown to the vision tower
  std::unique_ptr<SoundUnits> sound_;
};

}  // namespace burnish::models::minimax_h3
