#pragma once
#include "models/parts/layer_tables.h"

// What files of several families call the layers of blocks of two streams and of one: the names of Black Forest Labs, with ours.
namespace burnish::models {

/// Layers behind "double_blocks.N." and "transformer_blocks.N."; and behind "single_blocks.N." and "single_transformer_blocks.N.".
extern const RenamedLayers kDoubleBlockLayers, kSingleBlockLayers;
/// Weights of norms, as whole names with {} for a block's number.
extern const RenamedLayers kBlockNorms;

/// Adds layers of all double blocks, and of all single ones, in these names.
void add_original_blocks(RenamedLayers& all, const RenamedLayers& of_double, const RenamedLayers& of_single, int64_t num_double,
                         int64_t num_single);

}  // namespace burnish::models
