#include "memory/repeats.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Storage.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "memory/body_graph.h"
#include "memory/multiplications.h"
#include "memory/repeated_body.h"

namespace burnish::memory {

namespace {

using In = MadeTensor::In;

/// A body that is given inputs.
struct Asked {
  nn::Block& block;
  const nn::Tensors& inputs;
  std::vector<c10::Storage> memory = {};
  BodyInputs of = inputs_of(inputs, memory);
  std::string key = {};
};

/// A body's outputs as they are outside of it.
struct Outside {
  nn::Tensors outputs = {};
  std::vector<c10::Storage> memory = {};  ///< of the outputs, each once
};

/// Hands the memory of a body's outputs to tensors outside, and has its script told when the graph lets go of it.
Outside outside_of(const nn::Tensors& outputs, const std::shared_ptr<BodyScript>& script, const Asked& asked, bool has_graph) {
  Outside outside;
  std::vector<c10::Storage> inner;
  const auto which = storages_of(outputs, inner);
  std::vector<int64_t> bases(inner.size(), 0);
  for (size_t i = 0; i < inner.size(); ++i) {
    if (auto input = stands_for(inner[i])) {
      outside.memory.push_back(asked.memory[*input]);
      bases[i] = asked.of.bases[*input];
      continue;
    }
    const auto num_bytes = static_cast<int64_t>(inner[i].nbytes());
    outside.memory.push_back(storage_of(inner[i].set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kMeta))), num_bytes));
    if (has_graph) inner[i].set_data_ptr_noswap(told_of(script, Move::Does::drop_output, i, outside.memory.back()));
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    outside.outputs.push_back(outputs[i].defined() ? tensor_in(outside.memory[which[i]], moved(geometry_of(outputs[i]), bases[which[i]]))
                                                   : at::Tensor());
  return outside;
}

/// Hangs a node behind a body's outputs that take gradients.
void hang(const nn::Tensors& inputs, nn::Tensors& outputs, const BodyForward& forward, const nn::GraphNodePtr& node) {
  auto edges = torch::autograd::collect_next_edges(inputs);
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!forward.reached.contains(i)) edges[i] = {};
  }
  node->set_next_edges(std::move(edges));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!forward.outputs[i].requires_grad) continue;
    const auto number = node->add_input_metadata(outputs[i]);
    torch::autograd::set_history(outputs[i], node_of_output(node, number));
  }
}

bool has_graph(const BodyForward& forward) {
  return std::ranges::any_of(forward.outputs, [](const auto& output) { return output.requires_grad; });
}

nn::Tensors first_time(const Asked& asked, const std::shared_ptr<BodyTable>& table) {
  auto& books = *table->books;
  auto graph = std::make_unique<BodyGraph>();
  auto script = graph->script;
  auto forward = std::make_shared<BodyForward>();
  const auto first_node = at::sequence_number::peek();
  const auto first = books.allocations.size();
  const auto before = Multiplications::of_thread();
  Outside outside;
  {
    const Listening listening(books, *script);
    auto outputs = go_through(asked.block, asked.of, asked.memory, *graph);
    for (const auto& output : outputs) {
      forward->outputs.push_back(script->made(output, books));
      if (output.defined() && forward->outputs.back().in == In::nothing) script->is_whole = false;
    }
    outside = outside_of(outputs, script, asked, !graph->outputs.empty());
  }
  forward->multiplications = Multiplications::of_thread() - before;
  forward->moves = std::exchange(script->moves, {});
  std::erase_if(forward->moves, [](const auto& move) { return move.does != Move::Does::take && move.does != Move::Does::free; });
  for (size_t i = 0; i < asked.memory.size(); ++i) {
    if (!script->has_dropped(Move::Does::drop_input, i)) forward->held_inputs.insert(i);
  }
  for (size_t i = 0; i < outside.memory.size(); ++i) {
    if (!script->has_dropped(Move::Does::drop_output, i)) forward->held_outputs.insert(i);
  }
  forward->kept = script->alive();
  std::erase_if(forward->kept, [&](size_t own) {
    return std::ranges::any_of(forward->outputs, [&](const auto& made) { return made.in == In::own && made.which == own; });
  });
  forward->reached = reached_by(*graph, asked.of);
  const bool has_nodes = !graph->outputs.empty();
  const bool knows_all = ends_within(*graph, first_node, table->blocks.at(&asked.block).trained);
  if (script->is_whole && knows_all && (has_nodes || forward->kept.empty())) table->known->forwards.emplace(asked.key, forward);
  if (!has_nodes) return outside.outputs;
  auto node = nn::make_graph_node<Repeated>(table, asked.block, asked.of, asked.key);
  const auto num_own = static_cast<size_t>(std::ranges::count(forward->moves, Move::Does::take, &Move::does));
  for (size_t i = 0; i < num_own; ++i) node->numbers.push_back(first + i);
  node->forward = forward;
  node->graph = std::move(graph);
  hang(asked.inputs, outside.outputs, *forward, node);
  return outside.outputs;
}

nn::Tensors once_more(const Asked& asked, const std::shared_ptr<const BodyForward>& forward, const std::shared_ptr<BodyTable>& table) {
  auto& books = *table->books;
  const auto place = books.places.current();
  std::vector<size_t> numbers;
  for (const auto& [does, of] : forward->moves) {
    if (does == Move::Does::take) numbers.push_back(books.take(of, place));
    else books.free(numbers[static_cast<size_t>(of)]);
  }
  Multiplications::of_thread() += forward->multiplications;
  OwnStorages own(table->books, numbers);
  nn::Tensors outputs;
  for (const auto& made : forward->outputs) {
    if (made.in == In::nothing) outputs.emplace_back();
    else if (made.in == In::own) outputs.push_back(tensor_in(own.of(made.which), made.geometry));
    else outputs.push_back(tensor_in(asked.memory[made.which], moved(made.geometry, asked.of.bases[made.which])));
  }
  if (!has_graph(*forward)) return outputs;
  auto node = nn::make_graph_node<Repeated>(table, asked.block, asked.of, asked.key);
  std::vector<c10::Storage> of_outputs;
  storages_of(outputs, of_outputs);
  for (auto i : forward->held_inputs) node->held.inputs[i] = asked.memory[i];
  for (auto i : forward->held_outputs) node->held.outputs[i] = of_outputs[i];
  node->numbers = std::move(numbers);
  node->forward = forward;
  hang(asked.inputs, outputs, *forward, node);
  return outputs;
}

}  // namespace

Repeats::Repeats(std::shared_ptr<Books> books, std::shared_ptr<KnownBodies> known)
    : table_(std::make_shared<BodyTable>(BodyTable{.books = std::move(books), .known = std::move(known)})) {}
Repeats::~Repeats() = default;

std::shared_ptr<KnownBodies> no_bodies() { return std::make_shared<KnownBodies>(); }

void Repeats::know(nn::Block& block, const TrainedTensors& trained) {
  auto& known = table_->blocks[&block];
  known = {described(block, trained), {}};
  for (const auto& [name, tensor] : trained) known.trained.push_back(tensor);
}

bool Repeats::is_exact() const { return table_->is_exact; }

/// Refuses a block that a graph runs twice: what trains in it gets the sum of its gradients then, once the last of them is there.
static void check_only_run(const BodyTable::KnownBlock& block, BodyTable& table) {
  const bool has_own_graph = torch::autograd::get_current_node() != nullptr;  // it is run again in backward
  if (!at::GradMode::is_enabled() || has_own_graph || block.trained.empty() || block.num_in_graph == 0) return;
  table.is_exact = false;
  throw NotRepeatable("a block that trains is run more than once before backward");
}

nn::Tensors Repeats::run(nn::Block& block, const nn::Tensors& inputs) {
  const auto known = table_->blocks.find(&block);
  const bool is_counted = std::ranges::all_of(inputs, [](const auto& input) { return !input.defined() || input.is_meta(); });
  if (known == table_->blocks.end() || !is_counted || table_->books->again || table_->books->listener != nullptr) return block.body(inputs);
  check_only_run(known->second, *table_);
  Asked asked{.block = block, .inputs = inputs};
  asked.key = fmt::format("{}\n{} {}{}", known->second.alike, at::GradMode::is_enabled(), Circumstances().text(), pattern_of(inputs));
  const auto forward = table_->known->forwards.find(asked.key);
  return forward == table_->known->forwards.end() ? first_time(asked, table_) : once_more(asked, forward->second, table_);
}

}  // namespace burnish::memory
