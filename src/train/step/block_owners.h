#pragma once
#include <map>
#include <optional>
#include <string>

#include "memory/paging.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// Which of several processes owns each trained weight of a component's blocks: stretches, of about equal numbers of elements, of the list
/// of these weights in the order in which blocks run. Settled by names, so that a weight goes to its owner as it is read from its file.
class BlockOwners {
 public:
  /// None.
  BlockOwners() = default;
  /// `part`: what of the component is loaded.
  BlockOwners(const Subject& subject, const std::string& component, const std::string& part, int64_t num_processes);

  /// Of the parameter of that name ("dit.blocks.0.linear.weight"); nothing where it is no weight of a block.
  std::optional<int64_t> find(const std::string& parameter) const;
  /// Of the weights of that block, which has the number in which blocks run; for as long as this lives.
  memory::OwnerOf of(size_t number) const;

 private:
  std::vector<std::string> blocks_;  ///< with the component's name before them
  std::map<std::string, int64_t> owners_;
};

}  // namespace burnish::train
