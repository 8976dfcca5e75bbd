#include "config/refusal.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace burnish::config {

std::string Refusal::lines() const {
  std::string text;
  for (const auto& problem : problems_) text += (text.empty() ? "" : "\n") + one_line(fmt::format("[{}] {}", room_, problem.sentence));
  return text;
}

std::string to_json(const std::vector<Problem>& problems) {
  auto list = nlohmann::json::array();
  for (const auto& [option, sentence] : problems) list.push_back({{"option", option}, {"sentence", sentence}});
  return nlohmann::json{{"problems", list}}.dump(2) + "\n";
}

}  // namespace burnish::config
