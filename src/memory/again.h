#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "memory/recompute.h"

namespace burnish::memory {

/// The part of a block that backward computes again instead of finding it kept.
struct Again {
  bool whole = false;                                     ///< the block, from its inputs
  std::optional<std::set<size_t>> values = std::nullopt;  ///< numbers of the calls of nn::remade that are made again; nothing: all
};

/// The parts of several blocks that are computed again, by the blocks' names.
using AgainByBlock = std::map<std::string, Again>;

/// Runs a block, by `inner` or its body where there is none, with that computed again. `checkpoints`: as for `recompute`.
std::shared_ptr<nn::BlockRunner> computing_again(const Again& again, std::shared_ptr<nn::BlockRunner> inner,
                                                 std::shared_ptr<Checkpoints> checkpoints);

}  // namespace burnish::memory
