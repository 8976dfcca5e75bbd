#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "io/model_values.h"

namespace burnish::models::text {

/// Returns a dimension of a named tensor; a data Error when the encoder's weights lack it.
inline int64_t dim_of(const io::Shapes& shapes, const std::string& name, size_t dim) {
  return io::side_of(shapes, name, dim, "text encoder");
}

/// Overwrites `value` with config.json's, where it has one.
template <class T>
void take(const nlohmann::json& config, const char* key, T& value) {
  io::take(config, key, value, "text encoder");
}

/// Throws a data Error where config.json states another value than the tensors.
template <class T>
void agree(const nlohmann::json& config, const char* key, const T& told) {
  io::agree(config, key, told, "text encoder");
}

}  // namespace burnish::models::text
