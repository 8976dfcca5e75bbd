#include "memory/profile.h"

#include <algorithm>
#include <numeric>

namespace burnish::memory {

namespace {

/// A block comes or goes.
struct Event {
  int64_t time;
  int64_t change;  ///< in bytes
  const Allocation* block;
};

std::vector<Event> events_of(const Allocations& allocations, int64_t begin, int64_t end) {
  std::vector<Event> events;
  for (const auto& block : allocations) {
    if (block.taken >= end || block.freed <= begin) continue;
    events.push_back({std::max(block.taken, begin), block.num_bytes, &block});
    if (block.freed < end) events.push_back({block.freed, -block.num_bytes, &block});
  }
  std::ranges::stable_sort(events, {}, &Event::time);
  return events;
}

}  // namespace

int64_t Bytes::total() const { return std::accumulate(of.begin(), of.end(), int64_t{0}); }

Profile profile(const Allocations& allocations, int64_t begin, int64_t end, size_t num_parts) {
  struct Most {
    Bytes live;
    std::string_view place;
  };
  Most peak, now;
  std::vector<Most> parts(num_parts);
  size_t last = 0;
  auto begin_parts = [&](size_t index) {  // with what is live by then
    for (; last < index; ++last) parts[last + 1] = now;
  };
  for (const auto& [time, change, block] : events_of(allocations, begin, end)) {
    auto share = static_cast<double>(time - begin) / static_cast<double>(std::max<int64_t>(1, end - begin));
    if (num_parts > 0) begin_parts(static_cast<size_t>(share * static_cast<double>(num_parts)));
    now.live[block->kind] += change;
    if (change > 0 && block->taken >= begin) now.place = block->place;
    if (now.live.total() > peak.live.total()) peak = now;
    if (num_parts > 0 && now.live.total() >= parts[last].live.total()) parts[last] = now;
  }
  if (num_parts > 0) begin_parts(num_parts - 1);
  Profile result{peak.live, std::string(peak.place)};
  for (const auto& [live, place] : parts) result.parts.push_back({live, std::string(place)});
  return result;
}

}  // namespace burnish::memory
