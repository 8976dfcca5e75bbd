#pragma once
#include "models/layer_tables.h"

// What files of several families call the layers of blocks of two streams and of one: the names of Black Forest Labs, with ours.
namespace burnish::models {

/// Behind "double_blocks.N." and "transformer_blocks.N."; and behind "single_blocks.N." and "single_transformer_blocks.N.".
extern const RenamedLayers kDoubleBlockLayers, kSingleBlockLayers;
/// Weights of norms, whole names with {} for a block's number.
extern const RenamedLayers kBlockNorms;

}  // namespace burnish::models
