#pragma once
#include <memory>

#include "memory/checkpoints.h"

namespace burnish::memory {

/// Keeps only a block's inputs in forward and runs the block again in backward (Chen et al. 2016, arXiv 1604.06174), both times by `inner`,
/// or its body where there is none. Gradients are the same as without, bit for bit on the CPU. With `checkpoints` the inputs wait there.
std::shared_ptr<nn::BlockRunner> recompute(std::shared_ptr<nn::BlockRunner> inner = nullptr,
                                           std::shared_ptr<Checkpoints> checkpoints = nullptr);

}  // namespace burnish::memory
