#include "base/times_as_long.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace burnish {

namespace {

double seconds_of(const std::function<void()>& call) {
  const auto before = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

}  // namespace

double times_as_long(const std::function<void()>& way, const std::function<void()>& other, int num_calls) {
  auto of_way = std::numeric_limits<double>::max(), of_other = of_way;
  for (int i = 0; i < num_calls; ++i) {
    of_way = std::min(of_way, seconds_of(way));
    of_other = std::min(of_other, seconds_of(other));
  }
  return of_way / of_other;
}

}  // namespace burnish
