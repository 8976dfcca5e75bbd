#pragma once
#include "models/families/ltx2/autoencoder_config.h"
#include "models/families/ltx2/given_frames.h"
#include "models/families/ltx2/sound_stream.h"
#include "models/families/ltx2/transformer.h"
#include "models/parts/assembled_model.h"
#include "models/parts/shared_components.h"

namespace burnish::models::ltx2 {

/// The components of LTX-2 found among a run's files; detection reads tensor names only.
struct LtxSources {
  Source dit, text_encoder, connectors, vae;
};
/// Finds the components.
LtxSources find_sources(const ModelFiles& files);
LtxSources find_sources(ModelFiles&& files) = delete;  // what is found points into the files

/// Components and parts, by their names.
inline const std::string kVae = "vae", kEncoder = "text_encoder", kConnectors = "connectors", kProjectionPart = "connectors.projection",
                         kConnectorsPart = "connectors.body", kText = "dit.text";
/// The features of a text for sound, beside those for frames, and the tokens that each stream reads.
inline const std::string kSoundText = "sound_text_embedding", kTextTokens = "text_tokens", kSoundTextTokens = "sound_text_tokens";
/// The tokens of a text that the transformer reads, learned ones among them.
inline constexpr int64_t kTextLength = 1024;

/// LTX-2, 2.3 and 2.5: clips with sound of a text.
class Ltx2Model : public AssembledModel {
 public:
  Ltx2Model(const ModelFiles& files, const ModelOptions& options);
  UnitGroups units_of(const Expert& expert) override;

 private:
  void add_transformer(const Source& source);
  void add_text(const LtxSources& found);
  void add_autoencoder(const Source& source);
  void fill_names();
  void fill_settings(const LtxSources& found);
  void encode_prompt(pipeline::Scope& scope);
  void connect(pipeline::Scope& scope);
  void project(pipeline::Scope& scope);
  /// Names what connectors write: tokens, or states that 2.0's transformer projects to tokens.
  std::vector<std::string> connected_names() const;
  void modulate(pipeline::Scope& scope);
  void denoise(pipeline::Scope& scope);
  pipeline::Units denoise_units();

  Config config_;
  AutoencoderPart autoencoder_;
  std::unique_ptr<SoundStream> sound_;
  std::unique_ptr<GivenFrames> given_;
};

}  // namespace burnish::models::ltx2
