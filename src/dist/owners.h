#pragma once
#include <cstdint>
#include <vector>

#include "dist/group.h"

namespace burnish::dist {

/// Divides a list of tensors among processes that keep what belongs to them alone: stretches of the list, by rank, of about equal numbers
/// of elements (ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054; whole tensors, as torch's ZeroRedundancyOptimizer has it).
std::vector<int64_t> owners_of(const std::vector<int64_t>& numels, int64_t num_processes);

/// Tensors of an owner, equal on all processes in shape and strides. A tensor that this process does not want may be undefined elsewhere
/// than with its owner, where `num_bytes` says how large it is.
struct Owned {
  int64_t owner = 0;
  at::Tensor tensor = {};
  int64_t num_bytes = 0;
};

/// Gives all processes the bits that their owners have. Travels in pieces, of which each process holds one for every process.
void share(Group& group, const std::vector<Owned>& tensors, int64_t piece_bytes = int64_t{4} << 20);

}  // namespace burnish::dist
