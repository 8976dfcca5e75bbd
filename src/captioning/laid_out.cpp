#include "captioning/laid_out.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace burnish::captioning {

namespace {

using Json = nlohmann::ordered_json;
constexpr double kGrid = 1000, kAsGood = 1e-6;

/// Boxes are top, left, bottom, right, as both forms have them.
Json numbers_of(const Box& box, double height, double width, double middle) {
  // A box's side at a whole number is that number, however it was rounded on the way.
  auto at = [&](double share, double side) { return static_cast<int64_t>(std::floor((share - middle) * side + kAsGood)); };
  return {at(box.top, height), at(box.left, width), at(box.bottom, height), at(box.right, width)};
}

/// The captions that Ideogram 4 was trained with (its prompting guide). What is behind what lies somewhere no model tells apart here, and
/// stays empty.
Json as_elements(const std::string& caption, const std::vector<Region>& regions) {
  auto elements = Json::array();
  for (const auto& region : regions) {
    Json element{{"type", region.words.empty() ? "obj" : "text"}, {"bbox", numbers_of(region.box, kGrid, kGrid, 0)}};
    if (!region.words.empty()) element["text"] = region.words;
    element["desc"] = region.label;
    elements.push_back(std::move(element));
  }
  return {{"high_level_description", caption}, {"compositional_deconstruction", {{"background", ""}, {"elements", elements}}}};
}

/// Captions of MOSS-Image (SimpleTuner's form of its report). Boxes are in the pixels of the picture as it trains.
Json as_items(const std::string& caption, const std::vector<Region>& regions, double height, double width) {
  auto items = Json::array();
  for (const auto& region : regions) {
    Json item{{"label", region.words.empty() ? "object" : "text"}, {"caption", region.label}};
    if (!region.words.empty()) item["text"] = region.words;
    item["bbox"] = numbers_of(region.box, height, width, 0.5);
    items.push_back(std::move(item));
  }
  return {{"summary", {{"canvas", "single"}, {"caption", caption}}},
          {"items", items},
          {"bbox_coord_space", "abs_centralized"},
          {"bbox_format", "yxyx"}};
}

}  // namespace

const std::vector<std::string>& layout_names() {
  static const std::vector<std::string> kNames{"text", "elements", "items"};
  return kNames;
}

std::string laid_out(const LayoutRule& rule, const std::string& caption, const std::vector<Region>& regions, int64_t height,
                     int64_t width) {
  const auto layout = static_cast<Layout>(std::ranges::find(layout_names(), rule.name) - layout_names().begin());
  if (layout == Layout::text) return caption;
  const auto pixels = static_cast<double>(height) * static_cast<double>(width);
  const auto scale = std::min(1.0, std::sqrt(static_cast<double>(rule.most_pixels) / pixels));
  const auto json = layout == Layout::elements
                        ? as_elements(caption, regions)
                        : as_items(caption, regions, static_cast<double>(height) * scale, static_cast<double>(width) * scale);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace burnish::captioning
