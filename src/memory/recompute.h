#pragma once
#include <memory>

#include "nn/block.h"

namespace burnish::memory {

/// Keeps only a block's inputs in forward and runs the block again in backward (Chen et al. 2016, arXiv 1604.06174).
/// Gradients are the same as without, bit for bit on the CPU.
std::shared_ptr<nn::BlockRunner> recompute();

}  // namespace burnish::memory
