#pragma once
#include <set>
#include <string>

#include "dist/world.h"
#include "train/run/opened.h"

namespace burnish::train {

/// Holds what frozen models make of all samples.
struct Encoded {
  Kept training, held_out;
};

/// Returns the text encoders for which a run has no room whole.
std::set<std::string> encoders_by_block(const Opened& run);

/// Encodes all samples of a run; `by_block` names text encoders that are read block by block. Several processes share the work.
Encoded encode_all(Opened& run, const pipeline::Schedule& schedule, const std::set<std::string>& by_block, const dist::World& world);

}  // namespace burnish::train
