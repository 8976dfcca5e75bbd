#pragma once
#include "models/layer_tables.h"

// What files of several families call the layers of blocks of two streams and of one: the names of Black Forest Labs, with ours.
namespace burnish::models {

/// Behind "double_blocks.N." and "transformer_blocks.N."; and behind "single_blocks.N." and "single_transformer_blocks.N.".
extern const RenamedLayers kDoubleBlockLayers, kSingleBlockLayers;
/// Weights of norms, whole names with {} for a block's number.
extern const RenamedLayers kBlockNorms;

/// How many blocks run before what a parameter belongs to, double blocks first: 0 for what comes before all blocks, and all of them for
/// what comes after them, which is below one of the paths `behind`.
int64_t blocks_before(const std::string& path, int64_t num_double, int64_t num_single, const std::vector<std::string>& behind);

}  // namespace burnish::models
