#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/scratch.h"

namespace burnish::test {

/// Every one of these numbers of a config.json is compared with the tensors, or with what all models of the family have: another than
/// `good` has is refused, with its name.
inline void expect_compared(const nlohmann::json& good, const std::vector<std::string>& keys,
                            const std::function<void(const nlohmann::json& config)>& read) {
  for (const auto& key : keys) {
    const auto right = good.at(key).get<int64_t>();
    for (const int64_t wrong : {int64_t{0}, int64_t{1}, right + 1, -right, int64_t{1} << 30}) {
      if (wrong == right) continue;
      SCOPED_TRACE(key + " " + std::to_string(wrong));
      auto config = good;
      config[key] = wrong;
      auto sentence = error_of([&] { read(config); });
      const auto stated = "config.json says " + key + " = " + std::to_string(wrong), told = std::to_string(right);
      EXPECT_TRUE(sentence.find(stated + " but the tensors say " + told) != std::string::npos ||
                  sentence.find(stated + "; " + told + " was expected") != std::string::npos)
          << sentence;
    }
  }
}

/// A value that no shape says, and that no model can have, is refused, with its name.
inline void expect_refused(const nlohmann::json& good, const std::string& key, const std::vector<nlohmann::json>& values,
                           const std::function<void(const nlohmann::json& config)>& read) {
  for (const auto& value : values) {
    SCOPED_TRACE(key + " " + value.dump());
    auto config = good;
    config[key] = value;
    error_of([&] { read(config); });
  }
}

}  // namespace burnish::test
