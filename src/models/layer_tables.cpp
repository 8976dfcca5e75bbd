#include "models/layer_tables.h"

#include <algorithm>

namespace burnish::models {

std::vector<std::string> each_behind(const std::string& prefix, std::vector<std::string> names) {
  for (auto& name : names) name = prefix + name;
  return names;
}

std::string with_underscores(std::string path) {
  std::ranges::replace(path, '.', '_');
  return path;
}

void add_blocks(RenamedLayers& all, const RenamedLayers& layers, const std::string& theirs, const std::string& ours, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    auto number = std::to_string(i) + ".";
    for (const auto& layer : layers) all.push_back({theirs + number + layer.theirs, each_behind(ours + number, layer.ours)});
  }
}

void add_rules(std::vector<io::KeyRule>& rules, const RenamedLayers& layers, const std::string& theirs, const std::string& ours) {
  for (const auto& layer : layers) {
    for (const char* part : {".weight", ".bias"}) {
      auto names = each_behind(ours, layer.ours);
      for (auto& name : names) name += part;
      rules.push_back({theirs + layer.theirs + part, names, names.size() > 1 ? io::KeyRule::Op::stack_rows : io::KeyRule::Op::copy});
    }
  }
}

}  // namespace burnish::models
