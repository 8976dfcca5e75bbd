#include "models/options.h"

#include <fmt/core.h>

namespace burnish::models {

std::string why_negative(const std::string& name, const OptionValue& value) {
  auto number = std::get<int64_t>(value);
  return number < 0 ? fmt::format("{} must be at least 0, not {}", name, number) : "";
}

}  // namespace burnish::models
