#pragma once
#include <cstdint>

namespace burnish::train {

/// The rule of rounds, in which a run draws pictures itself and then learns from them.
struct RoundRule {
  int64_t num_steps = 16;  ///< optimizer steps that learn from the pictures of a round
  int64_t num_groups = 2;  ///< groups that are drawn for it, each under the prompt of a sample
  int64_t group_size = 8;  ///< pictures of a group, which are compared with each other
};

}  // namespace burnish::train
