#pragma once
#include "io/model_values.h"

// What families check alike when they read a config.json.
namespace burnish::models {

/// Overwrites `value` with config.json's, where it has one. A data Error where `value` was read from the shapes of tensors and is another.
template <class T>
void agree_on(const nlohmann::json& config, const char* key, T& value, bool from_shapes, const char* what = "transformer") {
  auto stated = value;
  if (!io::take(config, key, stated, what)) return;
  if (from_shapes && stated != value)
    data_error("models", "config.json says {} = {} but the tensors say {}; the folder mixes two models", key, stated, value);
  value = stated;
}

}  // namespace burnish::models
