#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace burnish::studio {

/// Every combination of what a drawing lists.
struct Grid {
  std::string prompts;   ///< a line for each picture, as `burnish sample --prompts` reads them
  nlohmann::json cells;  ///< [{axis: value, ..., "picture": number}]: of each combination its values, and which picture it is
  int64_t num_pictures;  ///< of which one may be that of several combinations
};

/// Combines what Drawings::draw is asked for. Lines of the same strengths stand beside each other, since the model changes between others
/// (docs/sample.md); with "without_blocks" the pictures without a group of blocks come behind all whole ones. A config Error for prompts
/// that no line can hold, and for more than 1000 combinations.
Grid make_grid(const nlohmann::json& wish);

}  // namespace burnish::studio
