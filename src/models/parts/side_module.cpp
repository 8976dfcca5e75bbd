#include "models/parts/side_module.h"

namespace burnish::models {

void add_encoding(UnitGroups& groups, const pipeline::Units& units) {
  auto& reads = groups.denoise.back().reads;
  for (const auto& unit : units) {
    groups.encode_references.push_back(unit);
    reads.insert(reads.end(), unit.writes.begin(), unit.writes.end());
  }
}

}  // namespace burnish::models
