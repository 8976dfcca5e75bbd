#pragma once
#include <memory>
#include <string>
#include <vector>

#include "nn/block.h"

namespace burnish::tagging {

/// Stages of blocks, each but the first behind a reduction that leaves fewer places: "0.blocks.0", "1.downsample", "1.blocks.0" and so on.
template <class Block, class Reduction>
struct Stages : nn::Module {
  void add_reduction(std::unique_ptr<Reduction> reduction) {
    own(std::to_string(blocks.size()) + ".downsample", *reduction);
    reductions.push_back(std::move(reduction));
  }
  void add_blocks(std::vector<std::unique_ptr<Block>> of_stage) {
    for (size_t i = 0; i < of_stage.size(); ++i) own(std::to_string(blocks.size()) + ".blocks." + std::to_string(i), *of_stage[i]);
    blocks.push_back(std::move(of_stage));
  }
  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i > 0) x = reductions.at(i - 1)->forward(x);
      for (auto& block : blocks[i]) x = block->run({x})[0];
    }
    return x;
  }
  std::vector<std::unique_ptr<Reduction>> reductions;
  std::vector<std::vector<std::unique_ptr<Block>>> blocks;
};

}  // namespace burnish::tagging
