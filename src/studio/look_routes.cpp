#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/number.h"
#include "data/survey.h"
#include "studio/dataset_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kMostBits = 24;  // two pictures that have nothing in common differ by 32 in the mean

std::vector<fs::path> paths_of(const std::vector<Item>& items) {
  std::vector<fs::path> paths;
  for (const auto& item : items) paths.push_back(item.path);
  return paths;
}

json to_json(const Look& look) {
  json value{{"sharpness", look.sharpness}, {"problem", look.problem}};
  if (look.num_frames > 0)
    value.update({{"frames", look.num_frames}, {"seconds", look.seconds}, {"height", look.size.height}, {"width", look.size.width}});
  return value;
}

/// Answers how many files were looked at, and once it is all of them, what was seen.
void say(Studio& studio, const fs::path& folder, Response& response) {
  const auto items = Datasets::files(folder);
  const auto looks = studio.looks.of(folder, paths_of(items));
  const auto num_done = std::ranges::count_if(looks, [](const auto& look) { return look.has_value(); });
  json value{{"done", num_done}, {"total", looks.size()}};
  if (std::cmp_equal(num_done, looks.size())) {
    auto& seen = value["looks"] = json::object();
    for (size_t i = 0; i < items.size(); ++i) seen[items[i].name] = to_json(*looks[i]);
  }
  answer(response, value);
}

/// Groups of files that look the same, of those that were looked at.
void say_alike(Studio& studio, const fs::path& folder, const Request& request, Response& response) {
  const int bits = std::clamp(parse_number<int>(request.get_param_value("bits")).value_or(data::kBitsOfEqual), 0, kMostBits);
  const auto items = Datasets::files(folder);
  const auto looks = studio.looks.of(folder, paths_of(items));
  std::vector<uint64_t> known;
  std::vector<std::string> names;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!looks[i] || !looks[i]->problem.empty()) continue;
    known.push_back(looks[i]->bits);
    names.push_back(items[i].name);
  }
  auto groups = json::array();
  for (const auto& group : data::alike(known, bits)) {
    auto& files = groups.emplace_back(json::array());
    for (auto i : group) files.push_back(names[i]);
  }
  answer(response, groups);
}

}  // namespace

void add_look_routes(Routes& routes, Studio& studio) {
  routes.get("/api/datasets/NAME/looks",
             of_dataset(studio, [&studio](const fs::path& folder, const Request&, Response& response) { say(studio, folder, response); }));
  routes.get("/api/datasets/NAME/alike", of_dataset(studio, [&studio](const fs::path& folder, const Request& request, Response& response) {
               say_alike(studio, folder, request, response);
             }));
}

}  // namespace burnish::studio
