#include "memory/body_graph.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Storage.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "memory/multiplications.h"

namespace burnish::memory {

namespace {

using torch::autograd::variable_list;

/// Gives a body's outputs their gradients, which nothing else holds by then.
class Exit final : public torch::autograd::Node {
 public:
  variable_list apply(variable_list&& /*started*/) override { return std::move(gradients); }
  variable_list gradients;
};

/// Tells a script that a parameter's gradient is added.
class Added final : public torch::autograd::FunctionPreHook {
 public:
  Added(std::weak_ptr<BodyScript> script, const Books& books, size_t parameter)
      : script_(std::move(script)), books_(books), parameter_(parameter) {}
  variable_list operator()(const variable_list& gradients) override {
    if (auto script = script_.lock()) script->accumulates(parameter_, gradients.at(0), books_);
    return gradients;
  }

 private:
  std::weak_ptr<BodyScript> script_;
  const Books& books_;
  size_t parameter_;
};

/// Finds of which own blocks a script says nothing after it has given them to a parameter.
void mark_last(BodyBackward& written) {
  std::set<size_t> later;
  for (const auto& gradient : written.gradients) {
    if (gradient.in == MadeTensor::In::own) later.insert(gradient.which);
  }
  for (auto move = written.moves.rbegin(); move != written.moves.rend(); ++move) {
    if (move->does == Move::Does::free) later.insert(static_cast<size_t>(move->which));
    if (move->does != Move::Does::accumulate) continue;
    auto& added = written.accumulated[static_cast<size_t>(move->which)];
    added.is_last = added.gradient.in == MadeTensor::In::own && later.insert(added.gradient.which).second;
  }
}

}  // namespace

variable_list BodyEntry::apply(variable_list&& gradients) {
  caught = std::move(gradients);
  return {};
}

BodyInputs inputs_of(const nn::Tensors& inputs, std::vector<c10::Storage>& memory) {
  BodyInputs of;
  of.which = storages_of(inputs, memory);
  of.bases = bases_of(inputs, of.which, memory.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& input = inputs[i];
    of.tensors.push_back(input.defined() ? std::optional(moved(geometry_of(input), -of.bases[of.which[i]])) : std::nullopt);
    of.takes_gradient.push_back(input.defined() && input.requires_grad());
  }
  for (const auto& storage : memory) of.num_bytes.push_back(static_cast<int64_t>(storage.nbytes()));
  return of;
}

nn::Tensors go_through(nn::Block& block, const BodyInputs& inputs, std::vector<c10::Storage> memory, BodyGraph& graph) {
  nn::Tensors seen;
  {
    std::vector<c10::Storage> told;
    for (size_t i = 0; i < memory.size(); ++i)
      told.push_back(storage_of(told_of(graph.script, Move::Does::drop_input, i, std::move(memory[i])), inputs.num_bytes[i]));
    for (size_t i = 0; i < inputs.tensors.size(); ++i)
      seen.push_back(inputs.tensors[i] ? tensor_in(told[inputs.which[i]], *inputs.tensors[i]) : at::Tensor());
  }
  graph.entry = nn::make_graph_node<BodyEntry>();
  for (size_t i = 0; i < seen.size(); ++i) {
    if (at::GradMode::is_enabled() && inputs.takes_gradient[i]) torch::autograd::set_history(seen[i], graph.entry);
  }
  auto outputs = block.body(seen);
  for (const auto& output : outputs) {
    if (output.defined() && output.requires_grad()) graph.outputs.push_back(torch::autograd::impl::gradient_edge(output));
  }
  return outputs;
}

bool ends_within(const BodyGraph& graph, uint64_t first_node, const std::vector<at::Tensor>& trained) {
  std::set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> next;
  for (const auto& edge : graph.outputs) next.push_back(edge.function.get());
  bool knows_all = true;
  while (!next.empty()) {
    auto* node = next.back();
    next.pop_back();
    if (node == nullptr || !seen.insert(node).second || node == graph.entry.get()) continue;
    if (const auto* added = dynamic_cast<const torch::autograd::AccumulateGrad*>(node)) {
      knows_all &= std::ranges::any_of(trained, [&](const auto& tensor) { return tensor.is_same(added->variable); });
      continue;
    }
    if (node->sequence_nr() < first_node) throw NotRepeatable("a block's body has gradients that go past its inputs");
    for (const auto& edge : node->next_edges()) next.push_back(edge.function.get());
  }
  return knows_all;
}

std::set<size_t> reached_by(const BodyGraph& graph, const BodyInputs& inputs) {
  std::vector<size_t> of_entry;  // the inputs that take gradients
  for (size_t i = 0; i < inputs.takes_gradient.size(); ++i) {
    if (inputs.takes_gradient[i]) of_entry.push_back(i);
  }
  std::set<const torch::autograd::Node*> seen;
  std::set<size_t> reached;
  auto next = graph.outputs;
  while (!next.empty()) {
    const auto edge = next.back();
    next.pop_back();
    if (edge.function == graph.entry && edge.function) reached.insert(of_entry.at(edge.input_nr));
    if (edge.function == nullptr || edge.function == graph.entry || !seen.insert(edge.function.get()).second) continue;
    for (const auto& further : edge.function->next_edges()) next.push_back(further);
  }
  return reached;
}

nn::Tensors go_back(BodyGraph& graph, const std::vector<at::Tensor>& trained, Books& books, nn::Tensors gradients, BodyBackward& written) {
  auto script = graph.script;
  std::vector<c10::Storage> storages;
  const auto which = storages_of(gradients, storages);
  std::unordered_map<size_t, size_t> numbers;
  for (size_t i = 0; i < storages.size(); ++i) {
    if (auto number = number_in(storages[i], books)) numbers[*number] = i;
    else script->is_whole = false;
  }
  script->begin_backward(std::move(numbers), bases_of(gradients, which, storages.size()));
  storages.clear();
  for (size_t i = 0; i < trained.size(); ++i) {
    if (trained[i].requires_grad())
      torch::autograd::impl::grad_accumulator(trained[i])->add_pre_hook(std::make_unique<Added>(script, books, i));
  }
  auto exit = nn::make_graph_node<Exit>();
  torch::autograd::edge_list edges;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    edges.push_back(graph.outputs[i]);
    exit->gradients.push_back(std::move(gradients[i]));
  }
  exit->set_next_edges(std::move(edges));
  const auto start = at::zeros({}, at::TensorOptions(at::kCPU));
  exit->add_input_metadata(start);
  const auto before = Multiplications::of_thread();
  {
    const Listening listening(books, *script);
    torch::autograd::Engine::get_default_engine().execute({{exit, 0}}, {start}, /*keep_graph=*/false, /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  }
  auto caught = std::move(static_cast<BodyEntry&>(*graph.entry).caught);
  written.multiplications = Multiplications::of_thread() - before;
  for (const auto& gradient : caught) {
    written.gradients.push_back(script->made(gradient, books));
    const auto in = written.gradients.back().in;
    if (gradient.defined() && (in == MadeTensor::In::nothing || in == MadeTensor::In::input)) script->is_whole = false;
  }
  written.moves = std::move(script->moves);
  written.accumulated = std::move(script->accumulated);
  mark_last(written);
  return caught;
}

}  // namespace burnish::memory
