#pragma once
#include "models/families/minimax_h3/sound_units.h"
#include "models/parts/picture_texts.h"
#include "models/text/qwen3_vl_vision.h"

namespace burnish::models::minimax_h3 {

/// The columns that ask for a clip's first frame, and for its last one too, as DiffSynth-Studio calls them. Where a row names a picture in
/// the latter, this is the last frame; else it is the clip's own, as the first one always is.
inline constexpr const char* kFirstFrameColumn = "input_image";
inline const Column kLastFrame{.name = "end_image", .fit = Column::Fit::as_target, .words = {"a model that goes on from frames"}};
/// The column of references, as DiffSynth-Studio calls it, and the option that says whether drawings are given frames or references.
inline constexpr const char *kReferencesColumn = "references", *kUseOption = "reference_use";
std::vector<Option> given_options();

/// The autoencoder of frames.
inline const std::string kVae = "vae";
/// The tower that sees what is given, frames of the clip or references, and the values that are made of these: what it made of them
/// (references.h), the tokens of a text that stand for them, the places of all tokens within the text, and latents.
inline const std::string kTower = "image_encoder", kSeenGiven = "seen_given", kSeenEmbedding = "seen_embedding",
                         kSeenTokens = "seen_tokens", kTextPlaces = "text_places", kSeenPlaces = "seen_places", kGiven = "given_latents";
/// The noise of frames that are given, of which the model was made with a little.
inline constexpr double kGivenSigma = 0.001;

/// The frames or references given beside a prompt: a clip's first frame and its last one, or references. Each is shown to a vision tower,
/// whose tokens stand in the text, and its latents stand in the sequence.
class GivenUnits {
 public:
  /// `named_of_references` says whether the transformer's name is that of one that reads references, by which drawings go that say nothing.
  /// Throws a config Error for options that contradict each other.
  GivenUnits(const ModelFiles& files, const ModelOptions& options, Components& components, bool named_of_references);

  bool is_any() const { return options_.references; }
  bool are_references() const { return are_references_; }
  /// Returns the tower, of the files that it was found in.
  NamedRecipe tower(const Source& vision);
  void add_names(Names& names, int64_t caption_width, int64_t sound_rate) const;
  Extent seen(const Extent& given) const;

  /// Makes the unit that shows what is given to the tower, before a prompt is encoded.
  pipeline::Unit seeing_unit() const;
  /// Makes the units of its latents. The autoencoder and the units of sound must outlive them, as must this.
  pipeline::Units latent_units(const AutoencoderPart& autoencoder, const SoundUnits& sound) const;

 private:
  bool gives_last() const { return options_.extra_inputs.contains(kLastFrame.name); }
  std::vector<std::string> columns() const;
  std::vector<nn::Tensors> pixels(const pipeline::Scope& scope) const;
  nn::Tensors see(const at::Tensor& pixels) const;
  pipeline::Unit unit(const char* name, const std::string& writes, const std::string& model) const;

  const ModelFiles& files_;
  const ModelOptions& options_;
  Components& components_;
  bool are_references_ = false;
  text::Qwen3VlVisionConfig config_;
  text::PixelRule of_pictures_, of_clips_;  ///< how pictures and clips are shown to the tower
};

}  // namespace burnish::models::minimax_h3
