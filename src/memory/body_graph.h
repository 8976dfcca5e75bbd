#pragma once
#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "memory/body_script.h"
#include "memory/body_table.h"
#include "nn/graph_node.h"

// Inside of Repeats: a body that is really gone through.
namespace burnish::memory {

/// Is where a body's graph ends: takes the gradients of its inputs.
class BodyEntry final : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  nn::Tensors caught;  ///< of the inputs that take gradients, in their order
};

/// The graph of a body by itself.
struct BodyGraph {
  std::shared_ptr<BodyScript> script = std::make_shared<BodyScript>();
  nn::GraphNodePtr entry = {};
  torch::autograd::edge_list outputs = {};  ///< of outputs that take gradients
};

/// A body's inputs, without what they hold.
struct BodyInputs {
  std::vector<std::optional<Geometry>> tensors;  ///< nothing for undefined ones
  std::vector<bool> takes_gradient;
  std::vector<size_t> which;       ///< the memory of each, by number
  std::vector<int64_t> num_bytes;  ///< of that memory
  std::vector<int64_t> bases;      ///< where inputs begin in it, in bytes: tensors are counted from there
};
/// `memory` gets the storages of the inputs, each once.
BodyInputs inputs_of(const nn::Tensors& inputs, std::vector<c10::Storage>& memory);

/// Goes through a body, with a graph of its own where gradients are on, for which `memory` is held where it is there.
nn::Tensors go_through(nn::Block& block, const BodyInputs& inputs, std::vector<c10::Storage> memory, BodyGraph& graph);

/// Finds the inputs that a graph leads to from the outputs that it still has, by number.
std::set<size_t> reached_by(const BodyGraph& graph, const BodyInputs& inputs);

/// Goes through a body's backward. `gradients` are those of `graph.outputs`. What is gone through is written down as `written`.
nn::Tensors go_back(BodyGraph& graph, const std::vector<at::Tensor>& trained, Books& books, nn::Tensors gradients, BodyBackward& written);

/// Tells whether a graph ends in `entry` and in parameters alone, all of them among `trained`; throws where it goes on into what was made
/// before it.
bool ends_within(const BodyGraph& graph, uint64_t first_node, const std::vector<at::Tensor>& trained);

}  // namespace burnish::memory
