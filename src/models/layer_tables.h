#pragma once
#include <string>
#include <vector>

#include "io/key_map.h"
#include "models/names.h"

// Tables of other programs' names for layers, from which families make rules for files and for adapters.
namespace burnish::models {

/// A layer of another program: its name and ours; a fused layer has several of ours, stacked in this order.
struct RenamedLayer {
  std::string theirs;
  std::vector<std::string> ours;
};
using RenamedLayers = std::vector<RenamedLayer>;

std::vector<std::string> each_behind(const std::string& prefix, std::vector<std::string> names);
/// Writes a path as kohya's files do.
std::string with_underscores(std::string path);

/// Adds `layers` of every block, with both sides' prefixes and the block's number before them: "double_blocks.", "transformer_blocks.".
void add_blocks(RenamedLayers& all, const RenamedLayers& layers, const std::string& theirs, const std::string& ours, int64_t count);

/// Adds the rules for the parameters of each layer, `theirs` and `ours` before the names: "double_blocks.{}.".
void add_rules(std::vector<io::KeyRule>& rules, const RenamedLayers& layers, const std::string& theirs = "", const std::string& ours = "");

}  // namespace burnish::models
