#pragma once
#include "train/run/opened.h"

namespace burnish::train {

/// Puts in words what a run learns from and how: options, samples with their contents, weights and encoders. A saved state is only good for
/// a run of equal identity, and processes that train together have to agree on it.
std::string identity_of(const Opened& run);

}  // namespace burnish::train
