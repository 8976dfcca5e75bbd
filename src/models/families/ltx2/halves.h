#pragma once
#include "models/parts/find_components.h"

namespace burnish::models::ltx2 {

/// The halves of an autoencoder as files hold them: in one file, in two, or one alone.
struct Halves {
  const ModelEntry* encoder = nullptr;
  const ModelEntry* decoder = nullptr;
  /// What code runs of both, beside each other, with the statistics of latents; absent where there is neither half.
  std::optional<io::TensorSource> tensors;
  bool is_original = false;  ///< whether the statistics have their original names
  const ModelEntry* entry() const { return encoder ? encoder : decoder; }
};

/// The original names of the statistics of latents, which are latents_mean and latents_std here.
inline const std::string kOriginalMean = "per_channel_statistics.mean-of-means", kOriginalDeviation = "per_channel_statistics.std-of-means";

/// Returns the rules for these alone.
io::KeyMap original_statistics();

/// The tensors by which halves are found, any of a list being enough, and the words that may stand before all names.
struct HalfMarks {
  std::vector<std::string> encoder, decoder, prefixes;
};
/// Finds the halves among files. A file with both gives both; others may lie apart.
Halves find_halves(const ModelFiles& files, const HalfMarks& marks);

}  // namespace burnish::models::ltx2
