#include "config/problem.h"

#include <nlohmann/json.hpp>

namespace burnish::config {

std::string to_json(const std::vector<Problem>& problems) {
  auto list = nlohmann::json::array();
  for (const auto& [option, sentence] : problems) list.push_back({{"option", option}, {"sentence", sentence}});
  return nlohmann::json{{"problems", list}}.dump(2) + "\n";
}

}  // namespace burnish::config
