#pragma once
#include <memory>

#include "models/families/ltx2/vocoder_config.h"
#include "models/parts/find_components.h"

namespace burnish::models::ltx2 {

/// Makes a sound of the strength of its bands (names of diffusers' LTX2Vocoder, below "vocoder.", and LTX2VocoderWithBWE). LTX-2.3's makes
/// one of 16 kHz, hears its bands, and adds what a second network makes of these at 48 kHz.
class Vocoder : public nn::Module {
 public:
  Vocoder(const VocoderConfig& config, const at::TensorOptions& options);
  ~Vocoder() override;
  /// Maps bands [B, S, T, bands] as the autoencoder of sound decodes them -> samples [B, S, N] in [-1, 1] at config.rate, N being a
  /// multiple of T.
  at::Tensor forward(const at::Tensor& bands_BSTb) const;

 private:
  class Generator;
  struct Hearing;
  VocoderConfig config_;
  std::unique_ptr<Generator> first_, second_;
  std::unique_ptr<Hearing> hearing_;
};

/// Finds it in a file of its own or below "vocoder." of another, by diffusers' names or the original ones, without what no code runs.
Source find_vocoder(const ModelFiles& files);

/// Returns the rules between original names and ours, of both networks; the first is "vocoder." in both.
io::KeyMap original_vocoder_keys();
/// Returns the rules between names in a folder of diffusers' and ours: one network alone has nothing before its names there.
io::KeyMap folder_vocoder_keys(const VocoderConfig& config);

}  // namespace burnish::models::ltx2
