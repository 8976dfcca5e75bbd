#include "captioning/regions.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/input_error.h"
#include "base/number.h"
#include "base/shortened.h"
#include "base/text.h"

namespace burnish::captioning {

namespace {

constexpr double kThousand = 1000;
constexpr size_t kShownOfAnswer = 80;

bool is_rectangle(const Box& box) { return box.left < box.right && box.top < box.bottom; }

Box within_picture(Box box) {
  for (auto* side : {&box.left, &box.top, &box.right, &box.bottom}) *side = std::clamp(*side, 0.0, 1.0);
  return box;
}

/// The share of a side where the middle of a thousandth lies.
double share_of(int64_t place) { return (static_cast<double>(place) + 0.5) / kThousand; }

/// A label and the places that stand behind it without anything between.
struct Marked {
  std::string label;
  std::vector<int64_t> places;
};
std::vector<Marked> marked_parts(const std::string& answer) {
  constexpr std::string_view kBegin = "<loc_";
  std::vector<Marked> parts;
  auto rest = std::string_view(answer);
  while (!rest.empty()) {
    if (rest.starts_with(kBegin)) {
      auto number = rest.substr(kBegin.size());
      const auto place = take_number<int>(number);
      if (place && number.starts_with('>')) {
        if (parts.empty()) parts.emplace_back();
        parts.back().places.push_back(*place);
        rest = number.substr(1);
        continue;
      }
    }
    if (rest.front() == '<') {  // another mark, which parts what stands before it from what stands behind
      const auto end = rest.find('>');
      rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
      parts.emplace_back();
      continue;
    }
    const auto end = std::min(rest.find('<'), rest.size());
    parts.push_back({std::string(trim(rest.substr(0, end))), {}});
    rest = rest.substr(end);
  }
  return parts;
}

void check_found(const std::vector<Region>& regions, const std::string& answer) {
  if (regions.empty() && !trim(answer).empty())
    data_error("captioning", "no box was read in what the model answered about them, \"{}\"", shortened(answer, kShownOfAnswer));
}

/// Returns the text of the list that stands in an answer; of one without its end up to the last whole entry.
std::string list_in(const std::string& answer) {
  const auto begin = answer.find('[');
  if (begin == answer.npos) return "";
  const auto end = answer.rfind(']');
  const auto whole = end == answer.npos || end < begin ? std::string() : answer.substr(begin, end + 1 - begin);
  if (nlohmann::json::accept(whole)) return whole;
  const auto entry = answer.rfind('}');
  return entry == answer.npos || entry < begin ? "" : answer.substr(begin, entry + 1 - begin) + "]";
}

std::optional<Region> region_of(const nlohmann::json& entry, const BoxScale& scale) {
  if (!entry.is_object() || !entry.contains("bbox_2d")) return std::nullopt;
  const auto& numbers = entry["bbox_2d"];
  const auto is_number = [](const auto& one) { return one.is_number(); };
  if (!numbers.is_array() || numbers.size() != 4 || !std::ranges::all_of(numbers, is_number)) return std::nullopt;
  auto side = [&](size_t i, double whole) { return numbers[i].template get<double>() / whole; };
  auto text = [&](const char* key) {
    return entry.contains(key) && entry[key].is_string() ? std::string(trim(entry[key].get<std::string>())) : std::string();
  };
  Region region{text("label"), text("text_content"),
                within_picture({side(0, scale.width), side(1, scale.height), side(2, scale.width), side(3, scale.height)})};
  if (region.label.empty()) region.label = region.words.empty() ? "" : "text";
  if (region.label.empty() || !is_rectangle(region.box)) return std::nullopt;
  return region;
}

}  // namespace

std::vector<Region> regions_of_marks(const std::string& answer) {
  std::vector<Region> regions;
  for (const auto& [label, places] : marked_parts(answer)) {
    for (size_t i = 0; i + 4 <= places.size(); i += 4) {
      const Box box{share_of(places[i]), share_of(places[i + 1]), share_of(places[i + 2]), share_of(places[i + 3])};
      if (!label.empty() && is_rectangle(box)) regions.push_back({label, "", box});
    }
  }
  check_found(regions, answer);
  return regions;
}

std::vector<Region> words_of_marks(const std::string& answer) {
  constexpr size_t kOfCorners = 8;
  std::vector<Region> regions;
  for (const auto& [words, places] : marked_parts(answer)) {
    if (words.empty() || places.size() < kOfCorners) continue;
    const auto [left, right] = std::minmax({places[0], places[2], places[4], places[6]});
    const auto [top, bottom] = std::minmax({places[1], places[3], places[5], places[7]});
    const Box box{share_of(left), share_of(top), share_of(right), share_of(bottom)};
    if (is_rectangle(box)) regions.push_back({"text", words, box});
  }
  return regions;
}

std::vector<Region> regions_of_json(const std::string& answer, const BoxScale& scale) {
  std::vector<Region> regions;
  const auto list = nlohmann::json::parse(list_in(answer), nullptr, /*allow_exceptions=*/false);
  if (list.is_array()) {
    for (const auto& entry : list) {
      if (auto region = region_of(entry, scale)) regions.push_back(std::move(*region));
    }
  }
  if (!list.is_array() || !list.empty()) check_found(regions, answer);
  return regions;
}

}  // namespace burnish::captioning
