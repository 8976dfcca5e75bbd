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
#include "memory/keep_others.h"
#include "memory/multiplications.h"
#include "nn/delta_strength.h"

namespace burnish::memory {

namespace {

using In = MadeTensor::In;
using torch::autograd::variable_list;

/// What a body is run under, beside its inputs, which its backward has again.
struct Circumstances {
  double strength = nn::DeltaStrength::current();
  std::optional<std::set<size_t>> recomputed =
      KeepOthers::current() == nullptr ? std::nullopt : std::optional(KeepOthers::current()->recomputed());

  std::string text() const { return fmt::format("{} {}", strength, recomputed ? fmt::format("{}", fmt::join(*recomputed, ",")) : "all"); }
};

/// Storages of blocks of memory that a body takes, by its own count, as far as tensors are made in them.
class OwnStorages {
 public:
  OwnStorages(std::shared_ptr<Books> books, const std::vector<size_t>& numbers) : books_(std::move(books)), numbers_(numbers) {}
  const c10::Storage& of(size_t own) {
    auto [found, is_new] = there_.try_emplace(own);
    const auto number = numbers_[own];
    if (is_new) found->second = storage_of(data_of(books_, number), books_->allocations[number].num_bytes);
    return found->second;
  }
  /// Returns whether there was one.
  bool drop(size_t own) { return there_.erase(own) > 0; }

 private:
  std::shared_ptr<Books> books_;
  const std::vector<size_t>& numbers_;
  std::map<size_t, c10::Storage> there_;
};

/// A body's outputs as they are outside of it.
struct Outside {
  nn::Tensors outputs = {};
  std::vector<c10::Storage> memory = {};  ///< of the outputs, each once
};

/// Is the node of a body in the graph outside.
class Repeated final : public torch::autograd::Node {
 public:
  Repeated(std::shared_ptr<BodyTable> table, nn::Block& block, BodyInputs inputs, std::string key)
      : table_(std::move(table)), block_(block), inputs_(std::move(inputs)), key_(std::move(key)) {
    ++table_->blocks.at(&block_).num_in_graph;
  }
  ~Repeated() override {
    if (!fate_.is_done) --table_->blocks.at(&block_).num_in_graph;
    free_kept();
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  variable_list apply(variable_list&& gradients) override;
  /// Is told that nobody has that output any longer, of those that take gradients: what of the graph leads to it alone is gone.
  void drop(size_t output);

  std::shared_ptr<const BodyForward> forward = {};
  std::vector<size_t> numbers = {};  ///< the books' of own blocks
  std::unique_ptr<BodyGraph> graph = {};
  struct HeldMemory {
    std::map<size_t, c10::Storage> inputs = {}, outputs = {};  ///< by their numbers
  };
  HeldMemory held = {};  ///< memory that the graph would hold, where it is not there

 private:
  Books& books() const { return *table_->books; }
  void free_kept();
  void drop_really(const std::string& key, size_t output);
  void drop_again(const BodyDrop& known);
  void leave_all_but(const std::set<size_t>& reached);
  std::string key_of(const variable_list& gradients) const;
  void make_graph();
  variable_list really(const std::string& key, variable_list&& gradients);
  variable_list again(const BodyBackward& known, variable_list&& gradients);
  /// Returns whether what is gone by now was the last that held a block of memory.
  bool is_freed(size_t own) const { return books().allocations[numbers[own]].freed < books().now; }
  variable_list of_inputs(nn::Tensors caught) const;

  std::shared_ptr<BodyTable> table_;
  nn::Block& block_;
  BodyInputs inputs_;
  std::string key_;
  Circumstances circumstances_ = {};
  /// Tells what has happened to it.
  struct Fate {
    bool is_done = false;
    std::set<size_t> without = {};  ///< outputs that nobody has any longer
  };
  Fate fate_ = {};
};

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

variable_list Repeated::really(const std::string& key, variable_list&& gradients) {
  BodyBackward written;
  const auto& trained = table_->blocks.at(&block_).trained;
  auto caught = go_back(*graph, trained, books(), std::move(gradients), written);
  auto left = graph->script->alive();
  std::erase_if(left, [&](size_t own) { return own < numbers.size() && is_freed(own); });  // with an output that nobody has
  auto given = [&](const MadeTensor& made, size_t own) { return made.in == In::own && made.which == own; };
  std::erase_if(left, [&](size_t own) {
    return std::ranges::any_of(forward->outputs, [&](const auto& made) { return given(made, own); }) ||
           std::ranges::any_of(written.gradients, [&](const auto& made) { return given(made, own); }) ||
           std::ranges::any_of(written.accumulated, [&](const auto& added) { return given(added.gradient, own); });
  });
  if (graph->script->is_whole && left.empty()) {
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
  std::vector<std::optional<size_t>> came;
  for (const auto& storage : memory) came.push_back(number_in(storage, books()));
  gradients.clear();
  auto make = [&](const MadeTensor& made) {
    if (made.in == In::nothing) return at::Tensor();
    return tensor_in(made.in == In::own ? own.of(made.which) : memory[made.which], made.geometry);
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

/// Hands the memory of a body's outputs to tensors outside, and has its script told when the graph lets go of it.
Outside outside_of(const nn::Tensors& outputs, const std::shared_ptr<BodyScript>& script, const std::vector<c10::Storage>& of_inputs,
                   bool has_graph) {
  Outside outside;
  std::vector<c10::Storage> inner;
  const auto which = storages_of(outputs, inner);
  for (size_t i = 0; i < inner.size(); ++i) {
    if (auto input = stands_for(inner[i])) {
      outside.memory.push_back(of_inputs[*input]);
      continue;
    }
    const auto num_bytes = static_cast<int64_t>(inner[i].nbytes());
    outside.memory.push_back(storage_of(inner[i].set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kMeta))), num_bytes));
    if (has_graph) inner[i].set_data_ptr_noswap(told_of(script, Move::Does::drop_output, i, outside.memory.back()));
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    outside.outputs.push_back(outputs[i].defined() ? tensor_in(outside.memory[which[i]], geometry_of(outputs[i])) : at::Tensor());
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
    torch::autograd::set_history(outputs[i], nn::make_graph_node<OfOutput>(node, number));
  }
}

bool has_graph(const BodyForward& forward) {
  return std::ranges::any_of(forward.outputs, [](const auto& output) { return output.requires_grad; });
}

/// A body that is given inputs.
struct Asked {
  nn::Block& block;
  const nn::Tensors& inputs;
  std::vector<c10::Storage> memory = {};
  BodyInputs of = inputs_of(inputs, memory);
  std::string key = {};
};

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
    outside = outside_of(outputs, script, asked.memory, !graph->outputs.empty());
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
    else outputs.push_back(tensor_in(made.in == In::own ? own.of(made.which) : asked.memory[made.which], made.geometry));
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
