#pragma once
#include "train/run/opened.h"

namespace burnish::train {

/// The words for what a run learns from and how: options, samples with their contents, weights and encoders. A saved state is only good
/// for a run of equal identity, and processes that train together have to agree on it.
struct Identity {
  std::string text;
  /// The words for what `text` has one hash of: a list of the samples' sizes, and of hashes of their captions, their pictures and the rest,
  /// so that a run that is refused is told which of them are others.
  std::string samples;
};
Identity identity_of(const Opened& run);

}  // namespace burnish::train
