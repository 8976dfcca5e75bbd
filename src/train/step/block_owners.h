#pragma once
#include <map>
#include <optional>
#include <string>

#include "memory/paging.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// The owner, among several processes, of each trained weight of a component's blocks. Each owns a stretch of the list of these weights in
/// the order in which blocks run, about equal in elements. Names settle it, so that a weight goes to its owner as it is read from its file.
class BlockOwners {
 public:
  /// Makes a list without owners.
  BlockOwners() = default;
  /// `part` is the loaded part of the component.
  BlockOwners(const Subject& subject, const std::string& component, const std::string& part, int64_t num_processes);

  /// Returns the owner of the parameter of that name ("dit.blocks.0.linear.weight"); nothing where it is no weight of a block.
  std::optional<int64_t> find(const std::string& parameter) const;
  /// Returns the owners of the weights of the block of that number, in the order in which blocks run; valid as long as this lives.
  memory::OwnerOf of(size_t number) const;

 private:
  std::vector<std::string> blocks_;  ///< names of blocks, with the component's name before them
  std::map<std::string, int64_t> owners_;
};

}  // namespace burnish::train
