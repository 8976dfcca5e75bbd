#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/model/components.h"

namespace burnish::models {

/// Returns the text encoders that do not go into so many bytes beside what they compute, and are to be read block by block: those whose
/// weights take more than three quarters of it. None where it is not known.
std::set<std::string> too_large_encoders(const Components& components, std::optional<int64_t> num_bytes);

/// A component of which one block at a time is in memory, beside what lies in none: it is loaded for as long as this lives. Whatever runs
/// it runs as works, which all come as far as a block before that is read, and go on to the next with it. So a block is read once for many
/// of them, each of which computes just what it computes with the whole in memory. Works that have begun and wait take what they hold: as
/// many are at work at once as read half a GiB in their first block, and 256 at most; then come the next.
class BlockByBlock {
 public:
  /// Loads what lies in no block. The component is not loaded, and its weights come from files.
  BlockByBlock(Components& components, const std::string& name);
  ~BlockByBlock();
  BlockByBlock(const BlockByBlock&) = delete;
  BlockByBlock& operator=(const BlockByBlock&) = delete;

  /// Runs works by their numbers, from 0 on. `goes_on`, if there is one, is asked whenever a block was read; where it says no, the works
  /// are given up and false is returned. Throws what a work throws.
  bool run(int64_t count, const std::function<void(int64_t)>& work, const std::function<bool()>& goes_on = {});

  /// Returns how many works are at work at once of those that are as large as the largest that was run.
  int64_t most_at_once() const;

 private:
  class Runner;
  struct Work;

  std::vector<std::unique_ptr<Work>> begin(int64_t& next, int64_t count, const std::function<void(int64_t)>& work);
  bool go_on(Work& work);
  void bring(size_t number);

  Components& components_;
  std::string name_;
  std::vector<nn::Block*> blocks_;
  std::unique_ptr<WeightPieces> weights_;
  std::optional<size_t> here_ = {};  ///< the number of the block that is in memory
  Work* at_work_ = nullptr;
  int64_t most_bytes_ = 1;  ///< the most bytes that a work read in its first block
};

}  // namespace burnish::models
