#pragma once
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/input_error.h"
#include "io/key_map.h"

// What config.json and the shapes of weights say of a model, for detection: whatever a damaged file holds ends in a sentence.
namespace burnish::io {

/// The length of side `dim` of a tensor, at least 1. `what` names the part in the data Error for a tensor that is missing, has fewer
/// dimensions or no elements.
inline int64_t side_of(const Shapes& shapes, const std::string& name, size_t dim, const char* what) {
  auto it = shapes.find(name);
  if (it == shapes.end()) data_error("models", "the weights of the {} lack the tensor '{}'", what, name);
  const auto& shape = it->second;
  if (shape.size() <= dim)
    data_error("models", "the tensor '{}' of the {} has {} dimensions, and at least {} were expected", name, what, shape.size(), dim + 1);
  if (shape[dim] < 1) data_error("models", "the tensor '{}' of the {} has a side of 0: its file is damaged", name, what);
  return shape[dim];
}

/// How many tensors a name with "{}" stands for, by numbers from 0 on. A name that ends in "." stands for all tensors that begin with it.
inline int64_t count_of(const Shapes& shapes, std::string_view name) {
  const auto place = name.find("{}");
  for (int64_t count = 0;; ++count) {
    auto next = fmt::format("{}{}{}", name.substr(0, place), count, name.substr(place + 2));
    auto it = shapes.lower_bound(next);
    bool is_there = it != shapes.end() && (next.ends_with('.') ? it->first.starts_with(next) : it->first == next);
    if (!is_there) return count;
  }
}

/// Tells whether a number can be a size, an index or a count: computing with it does not leave 64 bits.
inline bool is_bounded(int64_t value) {
  constexpr auto kLargest = int64_t{1} << 31;
  return value >= -kLargest && value <= kLargest;
}
inline bool is_bounded(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t value) { return is_bounded(value); });
}
template <class T>
bool is_bounded(const T& /*other*/) {
  return true;
}

/// Overwrites `value` with config.json's, and returns whether it has one that is not null. A data Error for a value of another kind, or
/// beyond any size.
template <class T>
bool take(const nlohmann::json& config, const char* key, T& value, const char* what) {
  if (!config.is_object()) return false;
  auto it = config.find(key);
  if (it == config.end() || it->is_null()) return false;
  bool fits = std::is_same_v<T, int64_t> ? it->is_number_integer() : true;
  try {
    if (fits) value = it->get<T>();
    fits = fits && is_bounded(value);
  } catch (const nlohmann::json::exception&) {
    fits = false;
  }
  if (!fits)
    data_error("models", "the config.json of the {} has {} = {}, which is not understood here", what, key, it->dump(-1, ' ', true));
  return true;
}

/// Throws a data Error where config.json states another value than `told`, which the tensors say.
template <class T>
void agree(const nlohmann::json& config, const char* key, const T& told, const char* what) {
  auto stated = told;
  if (take(config, key, stated, what) && stated != told)
    data_error("models", "config.json says {} = {} but the tensors say {}; the folder mixes two models", key, nlohmann::json(stated).dump(),
               nlohmann::json(told).dump());
}

/// Throws a data Error unless the number that config.json has under `key` is above 0 and finite.
inline void check_above_0(double value, const char* key, const char* what) {
  if (!(value > 0 && std::isfinite(value)))
    data_error("models", "the config.json of the {} has {} = {}, and a number above 0 was expected", what, key, value);
}

/// The name that config.json gives the part's class in diffusers, or "".
inline std::string class_name(const nlohmann::json& config) {
  auto it = config.is_object() ? config.find("_class_name") : config.end();
  return it != config.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace burnish::io
