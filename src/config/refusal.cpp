#include "config/refusal.h"

#include <fmt/core.h>

#include "base/error.h"

namespace burnish::config {

std::string Refusal::lines() const {
  std::string text;
  for (const auto& problem : problems_) text += (text.empty() ? "" : "\n") + one_line(fmt::format("[{}] {}", room_, problem.sentence));
  return text;
}

}  // namespace burnish::config
