#pragma once
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "memory/body_graph.h"
#include "memory/body_script.h"
#include "memory/body_table.h"
#include "memory/keep_others.h"
#include "nn/delta_strength.h"

// Inside of Repeats: a body's place in the graph outside, where its backward is gone through or only written down.
namespace burnish::memory {

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

/// Is the node of a body in the graph outside.
class Repeated final : public torch::autograd::Node {
 public:
  Repeated(std::shared_ptr<BodyTable> table, nn::Block& block, BodyInputs inputs, std::string key);
  ~Repeated() override;
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  /// Is told that nobody has that output any longer, of those that take gradients: what of the graph leads to it alone is gone.
  void drop(size_t output);

  std::shared_ptr<const BodyForward> forward = {};
  std::vector<size_t> numbers = {};  ///< the books' of own blocks
  std::unique_ptr<BodyGraph> graph = {};
  struct HeldMemory {
    std::map<size_t, c10::Storage> inputs = {}, outputs = {};  ///< by their numbers
    std::vector<size_t> until_end = {};                        ///< the books' numbers of blocks that end with this node
  };
  HeldMemory held = {};  ///< memory that the graph would hold, where it is not there

 private:
  Books& books() const { return *table_->books; }
  void free_kept();
  void drop_really(const std::string& key, size_t output);
  void drop_again(const BodyDrop& known);
  void leave_all_but(const std::set<size_t>& reached);
  std::string key_of(const torch::autograd::variable_list& gradients) const;
  void make_graph();
  void end_graph(BodyBackward& written);
  torch::autograd::variable_list really(const std::string& key, torch::autograd::variable_list&& gradients);
  torch::autograd::variable_list again(const BodyBackward& known, torch::autograd::variable_list&& gradients);
  /// Returns whether what is gone by now was the last that held a block of memory.
  bool is_freed(size_t own) const { return books().allocations[numbers[own]].freed < books().now; }
  torch::autograd::variable_list of_inputs(nn::Tensors caught) const;

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

/// Is the node of one output of a body, which ends with it, and says so to the body.
nn::GraphNodePtr node_of_output(const nn::GraphNodePtr& body, uint32_t output);

}  // namespace burnish::memory
