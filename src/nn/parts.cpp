#include "nn/parts.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/split_with_sizes.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <map>

#include "nn/graph_node.h"

namespace burnish::nn {

namespace {

using torch::autograd::Node;

/// Behind what `joined` gave.
class Joined final : public Node {
 public:
  Joined(std::vector<at::Tensor> of, std::vector<uint64_t> since) : parts(std::move(of)), begins(std::move(since)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const auto& gradient = gradients.at(0);
    torch::autograd::variable_list of_parts;
    int64_t begin = 0;
    for (auto size : sizes) {
      of_parts.push_back(gradient.defined() ? gradient.narrow(-1, begin, size) : gradient);
      begin += size;
    }
    return of_parts;
  }
  void release_variables() override { parts.clear(); }

  std::vector<at::Tensor> parts;
  std::vector<uint64_t> begins;  ///< of the numbers that autograd gave to what was made for a part
  std::vector<int64_t> sizes = {};
};

/// All that was made since `begin` for a tensor, by the numbers that autograd gave it.
void collect(Node* node, uint64_t begin, uint64_t end, std::map<uint64_t, Node*>& made) {
  if (node == nullptr || node->sequence_nr() < begin || node->sequence_nr() >= end || !made.emplace(node->sequence_nr(), node).second)
    return;
  for (const auto& edge : node->next_edges()) collect(edge.function.get(), begin, end, made);
}

}  // namespace

at::Tensor joined(const std::vector<std::function<at::Tensor()>>& parts) {
  std::vector<at::Tensor> made, values;
  std::vector<uint64_t> begins;
  for (const auto& part : parts) {
    begins.push_back(at::sequence_number::peek());
    made.push_back(part());
    values.push_back(made.back().detach());
  }
  auto whole = at::cat(values, -1);
  if (!at::GradMode::is_enabled() || std::ranges::none_of(made, [](const auto& part) { return part.requires_grad(); })) return whole;
  auto edges = torch::autograd::collect_next_edges(made);
  auto node = make_graph_node<Joined>(made, begins);
  for (const auto& part : made) node->sizes.push_back(part.size(-1));
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(whole, node);
  return whole;
}

Parts::Parts(const at::Tensor& whole, const std::vector<int64_t>& sizes) {
  const auto* node = graph_node_as<Joined>(whole.grad_fn());
  if (at::GradMode::is_enabled() && node != nullptr && node->sizes == sizes) {
    parts_ = node->parts;
    begins_ = node->begins;
  } else {
    parts_ = at::split_with_sizes(whole, sizes, -1);
  }
}

at::Tensor Parts::next() {
  auto part = std::move(parts_.at(next_++));
  if (begins_.empty() || !part.requires_grad()) return part;
  std::map<uint64_t, Node*> made;
  const auto begin = begins_[next_ - 1], end = next_ < begins_.size() ? begins_[next_] : part.grad_fn()->sequence_nr() + 1;
  collect(part.grad_fn().get(), begin, end, made);
  for (auto& [number, node_of] : made) node_of->set_sequence_nr(at::sequence_number::get_and_increment());
  return part;
}

}  // namespace burnish::nn
