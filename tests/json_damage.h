#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// JSON that the program wrote, with one value of it damaged.
namespace burnish::test {

/// Values that are put in the place of another one: of each kind one, and numbers that are too small or too large.
inline std::vector<nlohmann::json> damages() {
  return {nullptr, true, -1, 1e300, int64_t{1} << 62, "", "x", nlohmann::json::array(), nlohmann::json::object()};
}

/// Returns the places of all values below the whole, of a list those of the first and the last one.
inline std::vector<nlohmann::json::json_pointer> places_in(const nlohmann::json& whole) {
  std::vector<nlohmann::json::json_pointer> places;
  std::function<void(const nlohmann::json&, const nlohmann::json::json_pointer&)> walk = [&](const auto& node, const auto& at) {
    size_t number = 0;
    for (const auto& [key, value] : node.items()) {
      const bool is_between = node.is_array() && number > 0 && number + 1 < node.size();
      const auto place = node.is_array() ? at / number : at / key;
      ++number;
      if (is_between) continue;
      places.push_back(place);
      if (value.is_structured()) walk(value, place);
    }
  };
  walk(whole, nlohmann::json::json_pointer());
  return places;
}

/// Returns the whole without the value at a place.
inline nlohmann::json without(nlohmann::json whole, const nlohmann::json::json_pointer& place) {
  auto& parent = whole[place.parent_pointer()];
  if (parent.is_array()) parent.erase(std::stoul(place.back()));
  else parent.erase(place.back());
  return whole;
}

}  // namespace burnish::test
