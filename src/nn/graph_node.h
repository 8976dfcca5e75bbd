#pragma once
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <utility>

/// Nodes of autograd's graph that are ours. Up to torch 2.12 a graph owns its nodes by std::shared_ptr, later by c10::intrusive_ptr; this
/// header knows which, and what is written with it compiles with each.
namespace burnish::nn {

/// A pointer by which a graph owns a node, and Tensor::grad_fn hands one out.
using GraphNodePtr = decltype(torch::autograd::Edge::function);

/// Makes a node of type T, whose constructor takes `arguments`, for torch::autograd::set_history. A graph of many nodes is deleted without
/// deep recursion, as torch's own nodes are.
template <typename T, typename... Arguments>
auto make_graph_node(Arguments&&... arguments) {
#if TORCH_VERSION_MINOR >= 13
  return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
#else
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
#endif
}

/// The node as a T, or nullptr where there is none or it is another one; it lives as long as `node` does.
template <typename T>
T* graph_node_as(const GraphNodePtr& node) {
  return dynamic_cast<T*>(node.get());
}

}  // namespace burnish::nn
