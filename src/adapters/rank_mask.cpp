#include "adapters/rank_mask.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>

namespace burnish::adapters {

static std::atomic<const RankMask*> active = nullptr;

int64_t RankRule::ranks_at(double share_of_noise, int64_t rank) const {
  const auto fewest = std::min(least, rank);
  const auto kept = std::pow(1 - std::clamp(share_of_noise, 0.0, 1.0), alpha);
  return static_cast<int64_t>(kept * static_cast<double>(rank - fewest)) + fewest;
}

RankMask::RankMask(const RankRule& rule, std::vector<double> shares_of_noise) : rule_(rule), shares_(std::move(shares_of_noise)) {
  if (active.exchange(this) != nullptr) throw std::logic_error("two rank masks at once");
}

RankMask::~RankMask() { active = nullptr; }

std::vector<int64_t> RankMask::ranks_of(int64_t rank) {
  const auto* mask = active.load();
  if (mask == nullptr) return {};
  std::vector<int64_t> ranks;
  for (auto share : mask->shares_) ranks.push_back(mask->rule_.ranks_at(share, rank));
  if (std::ranges::adjacent_find(ranks, std::ranges::not_equal_to()) == ranks.end()) ranks.resize(1);
  return ranks;
}

}  // namespace burnish::adapters
