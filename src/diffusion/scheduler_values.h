#pragma once
#include <map>
#include <string>
#include <type_traits>
#include <variant>

#include "base/input_error.h"

namespace burnish::diffusion {

/// A value of `scheduler_config.json` after parsing; null values are left out of the map, lists are their text.
using SchedulerValue = std::variant<bool, double, std::string>;
using SchedulerValues = std::map<std::string, SchedulerValue>;

/// Sets `field` when the key is there; a data Error when it holds another type.
template <class T>
void read_value(const SchedulerValues& values, const char* key, T& field) {
  const auto found = values.find(key);
  if (found == values.end()) return;
  const T* value = std::get_if<T>(&found->second);
  if (!value) {
    const char* expected = std::is_same_v<T, bool> ? "true or false" : std::is_same_v<T, double> ? "a number" : "a string";
    data_error("diffusion", "scheduler_config.json: expected {} at \"{}\", found another type", expected, key);
  }
  field = *value;
}

/// Throws a data Error when a switch is on, which is not supported.
inline void refuse_switch(const SchedulerValues& values, const char* key) {
  bool on = false;
  read_value(values, key, on);
  if (on) data_error("diffusion", "scheduler_config.json: \"{}\" is on, which this sampler does not do; set it to false", key);
}

}  // namespace burnish::diffusion
