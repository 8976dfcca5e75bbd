#pragma once
#include <functional>

#include "models/parts/layer_tables.h"
#include "nn/module.h"

// What files of several families call the layers of blocks of two streams and of one: the names of Black Forest Labs, with ours.
namespace burnish::models {

/// Layers behind "double_blocks.N." and "transformer_blocks.N."; and behind "single_blocks.N." and "single_transformer_blocks.N.".
extern const RenamedLayers kDoubleBlockLayers, kSingleBlockLayers;
/// Weights of norms, as whole names with {} for a block's number.
extern const RenamedLayers kBlockNorms;

/// Adds layers of all double blocks, and of all single ones, in these names.
void add_original_blocks(RenamedLayers& all, const RenamedLayers& of_double, const RenamedLayers& of_single, int64_t num_double,
                         int64_t num_single);

/// Blocks of a kind: the path before their numbers, and how many there are.
struct BlockStack {
  std::string path;
  int64_t count = 0;
};
/// Counts the blocks that run before the first with a parameter that trains, in the order of the stacks: 0 where a parameter trains that
/// comes before all blocks, and all of them where none trains but below one of the paths `behind`, which come after them.
int64_t blocks_before_training(nn::Module& transformer, const std::function<bool(const std::string& path)>& trains,
                               const std::vector<BlockStack>& stacks, const std::vector<std::string>& behind);
/// Counts them where blocks of two streams come first, then those of one.
int64_t blocks_before_training(nn::Module& transformer, const std::function<bool(const std::string& path)>& trains, int64_t num_double,
                               int64_t num_single, const std::vector<std::string>& behind);

}  // namespace burnish::models
