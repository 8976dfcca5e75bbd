#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace burnish {

/// Computes a text for each number below `count`, each in a process that is forked from this one, `at_once` of them at a time. Hands them
/// to `told` in order, each as soon as it is there; "" where a process ended without one. For work that needs neither threads of this
/// process nor a GPU, which a fork has not.
void in_forks(int64_t count, int64_t at_once, const std::function<std::string(int64_t)>& text,
              const std::function<void(int64_t, const std::string&)>& told);

}  // namespace burnish
