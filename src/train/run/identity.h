#pragma once
#include "train/run/opened.h"

namespace burnish::train {

/// What a run learns from and how, in words: options, samples with their contents, weights and encoders. A saved state is only good for a
/// run of the same identity, and processes that train together have to agree on it.
std::string identity_of(const Opened& run);

}  // namespace burnish::train
