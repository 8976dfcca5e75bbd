#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "memory/recompute.h"

namespace burnish::memory {

/// The part of a block that backward computes again instead of finding it kept.
struct RecomputedPart {
  bool whole = false;                                     ///< the block, from its inputs
  std::optional<std::set<size_t>> values = std::nullopt;  ///< numbers of the calls of nn::recomputed that are recomputed; nothing: all
};

/// The parts of several blocks that are recomputed, by the blocks' names.
using RecomputedByBlock = std::map<std::string, RecomputedPart>;

/// Runs a block, by `inner` or its body where there is none, with that recomputed. `checkpoints`: as for `recompute`.
std::shared_ptr<nn::BlockRunner> recomputing(const RecomputedPart& part, std::shared_ptr<nn::BlockRunner> inner,
                                             std::shared_ptr<Checkpoints> checkpoints);

}  // namespace burnish::memory
