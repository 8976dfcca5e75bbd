#pragma once
#include <array>

#include "models/parts/find_components.h"

namespace burnish::models::wan {

/// The components of Wan among a run's files. A14B has two denoisers: one where there is much noise, one where there is little.
struct Found {
  Source high_noise, low_noise;  ///< models of one denoiser have `high_noise` alone
  std::array<Source, 2> vace;    ///< VACE's module beside each of them
  bool has_experts = false;      ///< whether the model has two denoisers, of which the files may hold one
  bool is_driven = false;        ///< whether a transformer among them is Wan-Animate-2's
  Source text_encoder, vae, motion, animate;
  Source talk;  ///< what InfiniteTalk adds, where it lies in a file of its own; the transformers have it among theirs
  struct Senses {
    Source image_encoder;  ///< CLIP, which some of Wan 2.1 see a clip's first frame with, one its last too
    Source audio_encoder;  ///< wav2vec 2.0, which Wan-S2V hears with
  } senses;

  bool has_vace() const { return vace[0].entry || vace[1].entry; }
  bool has_dit() const { return high_noise.entry || low_noise.entry; }
  /// Returns the transformer that speaks for both.
  const Source& dit() const { return high_noise.entry ? high_noise : low_noise; }
};
/// Finds them; detection reads tensor names, and tells experts by folder, file or component name.
Found find_sources(const ModelFiles& files);
Found find_sources(ModelFiles&& files) = delete;  // what is found points into the files

}  // namespace burnish::models::wan
