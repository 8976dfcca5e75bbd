#pragma once
#include <functional>

namespace burnish {

/// Returns how many times as long one way takes as another, here and now: the fastest of so many calls of each, which are made in turn, so
/// that a machine that is busy for a while slows both down.
double times_as_long(const std::function<void()>& way, const std::function<void()>& other, int num_calls);

}  // namespace burnish
