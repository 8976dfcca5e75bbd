#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "io/key_map.h"

namespace burnish::models::text {

/// A dimension of a named tensor; a data Error when the encoder's weights lack it.
inline int64_t dim_of(const io::Shapes& shapes, const std::string& name, size_t dim) {
  auto it = shapes.find(name);
  if (it == shapes.end() || it->second.size() <= dim) data_error("models", "the text encoder's weights lack the tensor '{}'", name);
  return it->second[dim];
}

/// How many consecutive numbers follow `prefix` in the names ("encoder.layers." -> 12).
inline int64_t count_layers(const io::Shapes& shapes, const std::string& prefix) {
  int64_t count = 0;
  while (true) {
    auto next = prefix + std::to_string(count) + ".";
    auto it = shapes.lower_bound(next);
    if (it == shapes.end() || !it->first.starts_with(next)) return count;
    ++count;
  }
}

/// Overwrites `value` with config.json's, where it has one.
template <class T>
void take(const nlohmann::json& config, const char* key, T& value) {
  if (!config.is_object()) return;
  if (auto it = config.find(key); it != config.end() && !it->is_null()) value = it->get<T>();
}

}  // namespace burnish::models::text
