#include "memory/knapsack.h"

#include <algorithm>
#include <limits>

namespace burnish::memory {

namespace {

constexpr int64_t kMostUnits = 1 << 16;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// The least work that saves at least 0, 1, 2, ... units.
using LeastWork = std::vector<double>;
/// For each of these numbers, whether that work is done with a saving.
using Taken = std::vector<bool>;

/// The work with which `saving` saves the last of so many units, after the rest were saved as `before` says.
double with(const Saving& saving, int64_t units_of_saving, const LeastWork& before, int64_t units) {
  return before[static_cast<size_t>(std::max<int64_t>(0, units - units_of_saving))] + saving.work;
}

/// Lets `work` do with the saving what is less work, given what `before` says of the rest.
Taken offer(const Saving& saving, int64_t units_of_saving, const LeastWork& before, LeastWork& work) {
  Taken taken(work.size());
  if (units_of_saving <= 0) return taken;
  for (auto i = std::ssize(work); i-- > 0;) {  // from above, since `before` may be `work`
    auto number = static_cast<size_t>(i);
    auto offered = with(saving, units_of_saving, before, i);
    if (offered >= work[number]) continue;
    work[number] = offered;
    taken[number] = true;
  }
  return taken;
}

}  // namespace

std::optional<std::vector<Chosen>> save_at_least(int64_t num_bytes, const std::vector<Choices>& blocks) {
  num_bytes = std::max<int64_t>(0, num_bytes);
  const int64_t unit = std::max<int64_t>(1, (num_bytes + kMostUnits - 1) / kMostUnits), num_units = (num_bytes + unit - 1) / unit;
  auto units = [&](const Saving& saving) { return saving.num_bytes / unit; };
  LeastWork work(static_cast<size_t>(num_units) + 1, kImpossible);
  work[0] = 0;
  struct Decisions {
    Taken whole;
    std::vector<Taken> values;
  };
  std::vector<Decisions> decisions;
  for (const auto& block : blocks) {
    const auto before = work;
    auto& [whole, values] = decisions.emplace_back();
    for (const auto& value : block.values) values.push_back(offer(value, units(value), work, work));
    whole = offer(block.whole, units(block.whole), before, work);
  }
  if (work.back() == kImpossible) return std::nullopt;

  std::vector<Chosen> chosen(blocks.size());
  auto left = num_units;
  auto take = [&](const Taken& taken, const Saving& saving) {
    if (!taken[static_cast<size_t>(left)]) return false;
    left = std::max<int64_t>(0, left - units(saving));
    return true;
  };
  for (auto i = blocks.size(); i-- > 0;) {
    const auto& values = blocks[i].values;
    chosen[i].values.assign(values.size(), false);
    chosen[i].whole = take(decisions[i].whole, blocks[i].whole);
    for (auto j = values.size(); !chosen[i].whole && j-- > 0;) chosen[i].values[j] = take(decisions[i].values[j], values[j]);
  }
  return chosen;
}

}  // namespace burnish::memory
