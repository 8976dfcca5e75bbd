#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory/alike.h"
#include "memory/body_script.h"
#include "nn/block.h"

// Inside of Repeats: what is known of bodies.
namespace burnish::memory {

/// Holds what bodies take, by all that it depends on.
struct KnownBodies {
  std::map<std::string, std::shared_ptr<const BodyForward>> forwards = {};
  std::map<std::string, std::shared_ptr<const BodyBackward>> backwards = {};
  std::map<std::string, BodyDrop> drops = {};
};

/// Holds the blocks of a dry run, and what is known of their bodies.
struct BodyTable {
  /// A block as it was made known.
  struct KnownBlock {
    std::string alike;                ///< the same for blocks that are alike
    std::vector<at::Tensor> trained;  ///< tensors that take gradients
    int64_t num_in_graph = 0;         ///< runs of it whose backward is to come, where something of it trains
  };

  std::shared_ptr<Books> books;
  std::shared_ptr<KnownBodies> known;
  std::map<const nn::Block*, KnownBlock> blocks = {};
  bool is_exact = true;
};

/// Describes a block by all that its body depends on, its inputs aside.
std::string described(nn::Block& block, const TrainedTensors& trained);

/// Finds where the first of the tensors in each storage begins, in bytes. What a body is known by counts from there: where its inputs lie
/// in what is made for all blocks does not matter to it, and where its outputs lie in theirs follows.
std::vector<int64_t> bases_of(const nn::Tensors& tensors, const std::vector<size_t>& which, size_t num_storages);

/// Returns bits of a body's inputs or gradients: geometry, and which of them lie in one memory, from its base on.
std::string pattern_of(const nn::Tensors& tensors);

/// Numbers the storages of tensors by their first appearance; undefined tensors have none.
std::vector<size_t> storages_of(const nn::Tensors& tensors, std::vector<c10::Storage>& storages);

}  // namespace burnish::memory
