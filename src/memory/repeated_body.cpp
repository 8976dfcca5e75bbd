#include "memory/repeated_body.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Storage.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "memory/multiplications.h"

namespace burnish::memory {

using torch::autograd::variable_list;

namespace {

using In = MadeTensor::In;

/// Is the node of one output of a body, which ends with it.
class OfOutput final : public torch::autograd::Node {
 public:
  OfOutput(const nn::GraphNodePtr& body, uint32_t output) : output_(output) { set_next_edges({{body, output}}); }
  variable_list apply(variable_list&& gradients) override {
    is_done_ = true;
    return std::move(gradients);
  }
  /// Is called after `apply`, and before the node is deleted.
  void release_variables() override {
    if (!std::exchange(is_done_, true)) static_cast<Repeated&>(*next_edge(0).function).drop(output_);
  }

 private:
  uint32_t output_;
  bool is_done_ = false;
};

}  // namespace

nn::GraphNodePtr node_of_output(const nn::GraphNodePtr& body, uint32_t output) { return nn::make_graph_node<OfOutput>(body, output); }

Repeated::Repeated(std::shared_ptr<BodyTable> table, nn::Block& block, BodyInputs inputs, std::string key)
    : table_(std::move(table)), block_(block), inputs_(std::move(inputs)), key_(std::move(key)) {
  ++table_->blocks.at(&block_).num_in_graph;
}

Repeated::~Repeated() {
  if (!fate_.is_done) --table_->blocks.at(&block_).num_in_graph;
  free_kept();
  for (auto number : held.until_end) books().free(number);
}

void Repeated::drop(size_t output) {
  try {
    if (!table_->is_exact || (!graph && fate_.is_done)) return;
    const auto key = fmt::format("{}\nwithout {}", key_, output);
    const auto known = table_->known->drops.find(key);
    if (!graph && known != table_->known->drops.end()) {
      drop_again(known->second);
    } else {
      if (!graph) make_graph();
      drop_really(key, output);
    }
    fate_.without.insert(output);
    key_ = key;
  } catch (const std::exception&) {  // a graph may end where nothing can be run
    table_->is_exact = false;
  }
}

void Repeated::drop_really(const std::string& key, size_t output) {
  auto& script = *graph->script;
  script.moves.clear();
  {
    const Listening listening(books(), script);
    graph->outputs[output] = {};
  }
  auto reached = reached_by(*graph, inputs_);
  leave_all_but(reached);
  if (script.is_whole && !fate_.is_done) table_->known->drops.try_emplace(key, BodyDrop{script.moves, std::move(reached)});
}

/// Lets go of what made the other inputs.
void Repeated::leave_all_but(const std::set<size_t>& reached) {
  for (size_t i = 0; i < num_outputs(); ++i) {
    if (!reached.contains(i)) next_edges()[i] = {};
  }
}

void Repeated::drop_again(const BodyDrop& known) {
  for (const auto& [does, of] : known.moves) {
    const auto number = static_cast<size_t>(of);
    if (does == Move::Does::free) books().free(numbers[number]);
    else if (does == Move::Does::drop_input) held.inputs.erase(number);
    else if (does == Move::Does::drop_output) held.outputs.erase(number);
  }
  leave_all_but(known.reached);
}

void Repeated::free_kept() {
  if (graph || !forward) return;
  for (auto own : forward->kept) {
    if (!is_freed(own)) books().free(numbers[own]);
  }
  forward.reset();
}

std::string Repeated::key_of(const variable_list& gradients) const {
  std::vector<c10::Storage> storages;
  const auto which = storages_of(gradients, storages);
  auto key = key_ + "\nof" + pattern_of(gradients);
  for (size_t i = 0; i < storages.size(); ++i) {
    // This list holds one of them.
    const auto num_here = std::ranges::count_if(gradients, [&](const auto& gradient) {
      return gradient.defined() && gradient.storage().unsafeGetStorageImpl() == storages[i].unsafeGetStorageImpl();
    });
    key += storages[i].use_count() > static_cast<size_t>(num_here) + 1 ? "s" : "o";
  }
  for (const auto& gradient : gradients) key += gradient.defined() && gradient.use_count() > 1 ? "S" : "O";
  for (const auto& parameter : table_->blocks.at(&block_).trained) key += parameter.grad().defined() ? '+' : '-';
  return key;
}

/// Goes through the body once more, into the very memory that it has, so that its graph is there.
void Repeated::make_graph() {
  graph = std::make_unique<BodyGraph>();
  const auto before = Multiplications::of_thread();
  auto alive = forward->kept;
  for (const auto& output : forward->outputs) {
    if (output.in == In::own) alive.push_back(output.which);
  }
  const auto is_gone = [&](size_t own) { return is_freed(own); };  // with an output that nobody has
  std::erase_if(alive, is_gone);
  graph->script->begin_after(numbers.empty() ? 0 : numbers.front(), numbers.size(), alive);
  std::vector<c10::Storage> memory(inputs_.num_bytes.size());
  for (auto& [which, storage] : held.inputs) memory[which] = std::move(storage);
  books().again = numbers.empty() ? 0 : numbers.front();
  {
    const at::AutoGradMode with_grad(true);
    const nn::DeltaStrength strength(circumstances_.strength);
    std::optional<KeepOthers> keeper;
    if (circumstances_.recomputed) keeper.emplace(*circumstances_.recomputed);
    auto outputs = go_through(block_, inputs_, std::move(memory), *graph);
    std::vector<c10::Storage> inner;
    storages_of(outputs, inner);
    for (size_t i = 0; i < inner.size(); ++i) {
      if (stands_for(inner[i])) continue;
      const auto found = held.outputs.find(i);
      auto outside = found == held.outputs.end() ? c10::Storage() : std::move(found->second);
      inner[i].set_data_ptr_noswap(told_of(graph->script, Move::Does::drop_output, i, std::move(outside)));
    }
  }
  for (auto output : fate_.without) graph->outputs[output] = {};
  table_->is_exact &= *books().again == (numbers.empty() ? 0 : numbers.front()) + numbers.size();
  books().again.reset();
  held.inputs.clear();
  held.outputs.clear();
  Multiplications::of_thread() = before;
}

/// Each input's gradient, of those that come.
variable_list Repeated::of_inputs(nn::Tensors caught) const {
  variable_list all(inputs_.tensors.size());
  for (size_t i = 0, next = 0; i < all.size() && next < caught.size(); ++i) {
    if (inputs_.takes_gradient[i]) all[i] = std::move(caught[next++]);
  }
  return all;
}

/// Lets go of what a body's graph still holds, such as a branch that no gradient came to. A graph without a node of its own for the body
/// would hold that until all of it ends, so the books are told when this node does.
void Repeated::end_graph(BodyBackward& written) {
  const auto script = graph->script;
  books().put_off = &held.until_end;
  graph.reset();
  books().put_off = nullptr;
  for (auto number : held.until_end) {
    if (auto own = script->own(number)) written.at_end.push_back(*own);
  }
}

variable_list Repeated::really(const std::string& key, variable_list&& gradients) {
  BodyBackward written;
  const auto& trained = table_->blocks.at(&block_).trained;
  const auto script = graph->script;
  auto caught = go_back(*graph, trained, books(), std::move(gradients), written);
  auto left = script->alive();
  std::erase_if(left, [&](size_t own) { return own < numbers.size() && is_freed(own); });  // with an output that nobody has
  auto given = [&](const MadeTensor& made, size_t own) { return made.in == In::own && made.which == own; };
  end_graph(written);
  std::erase_if(left, [&](size_t own) { return std::ranges::find(written.at_end, own) != written.at_end.end(); });
  std::erase_if(left, [&](size_t own) {
    return std::ranges::any_of(forward->outputs, [&](const auto& made) { return given(made, own); }) ||
           std::ranges::any_of(written.gradients, [&](const auto& made) { return given(made, own); }) ||
           std::ranges::any_of(written.accumulated, [&](const auto& added) { return given(added.gradient, own); });
  });
  forward.reset();
  if (script->is_whole && left.empty()) {
    auto [known, is_new] = table_->known->backwards.try_emplace(key);
    if (is_new) known->second = std::make_shared<const BodyBackward>(std::move(written));
    else table_->is_exact &= *known->second == written;
  }
  return of_inputs(std::move(caught));
}

variable_list Repeated::again(const BodyBackward& known, variable_list&& gradients) {
  const auto place = books().places.current();
  OwnStorages own(table_->books, numbers);
  std::vector<c10::Storage> memory;
  const auto which = storages_of(gradients, memory);
  const auto bases = bases_of(gradients, which, memory.size());
  std::vector<std::optional<size_t>> came;
  for (const auto& storage : memory) came.push_back(number_in(storage, books()));
  gradients.clear();
  auto make = [&](const MadeTensor& made) {
    if (made.in == In::nothing) return at::Tensor();
    if (made.in == In::own) return tensor_in(own.of(made.which), made.geometry);
    return tensor_in(memory[made.which], moved(made.geometry, bases[made.which]));
  };
  for (const auto& [does, of] : known.moves) {
    const auto number = static_cast<size_t>(of);
    switch (does) {
      case Move::Does::take: numbers.push_back(books().take(of, place)); break;
      case Move::Does::free:
        if (!own.drop(number)) books().free(numbers[number]);
        table_->is_exact &= is_freed(number);
        break;
      case Move::Does::drop_gradient:
        memory[number] = c10::Storage();
        table_->is_exact &= came[number] && books().allocations[*came[number]].freed < books().now;
        break;
      case Move::Does::drop_input: held.inputs.erase(number); break;
      case Move::Does::drop_output: held.outputs.erase(number); break;
      case Move::Does::accumulate: {
        const auto& [parameter, made, is_last] = known.accumulated[number];
        variable_list gradient{make(made)};
        if (is_last) own.drop(made.which);
        auto added = torch::autograd::impl::grad_accumulator(table_->blocks.at(&block_).trained[parameter]);
        (*added)(std::move(gradient));
        break;
      }
    }
  }
  forward.reset();
  Multiplications::of_thread() += known.multiplications;
  for (auto number : known.at_end) held.until_end.push_back(numbers[number]);
  nn::Tensors caught;
  for (const auto& made : known.gradients) caught.push_back(make(made));
  return of_inputs(std::move(caught));
}

variable_list Repeated::apply(variable_list&& gradients) {
  fate_.is_done = true;
  --table_->blocks.at(&block_).num_in_graph;
  books().places.current();  // this block's backward is what goes on, also for nodes that are made in it
  const auto key = key_of(gradients);
  auto known = table_->known->backwards.find(key);
  if (!graph && known != table_->known->backwards.end()) return again(*known->second, std::move(gradients));
  if (!graph) make_graph();
  return really(key, std::move(gradients));
}

}  // namespace burnish::memory
