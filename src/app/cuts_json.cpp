#include "app/cuts_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "data/read_row.h"

namespace burnish::app {

using nlohmann::json;

namespace {

/// What a crop takes of its picture, which is scaled before it is cut.
json cut_of(const data::Dataset& dataset, int64_t row, int64_t variant) {
  const auto picture = dataset.looked(row).picture;
  const auto crop = data::crop_of(dataset, row, variant);
  const auto scaled = data::covering_size(picture, crop.size);
  auto across = [&](int64_t pixels) { return static_cast<double>(pixels * picture.width) / static_cast<double>(scaled.width); };
  auto down = [&](int64_t pixels) { return static_cast<double>(pixels * picture.height) / static_cast<double>(scaled.height); };
  return {{"width", crop.size.width},
          {"height", crop.size.height},
          {"frames", dataset.extent(row).frames},
          {"window", {across(crop.left), down(crop.top), across(crop.size.width), down(crop.size.height)}},
          {"is_scaled_up", scaled.height > picture.height || scaled.width > picture.width}};
}

}  // namespace

std::string cuts_as_json(const data::Dataset& dataset) {
  std::map<std::string, json> pictures;  // one may be in several rows
  for (auto row : dataset.rows()) {
    const auto& entry = dataset.row(row);
    auto& picture = pictures[entry.file];
    if (picture.is_null())
      picture = {{"file", entry.file},
                 {"width", dataset.looked(row).picture.width},
                 {"height", dataset.looked(row).picture.height},
                 {"cuts", json::array()}};
    auto& cuts = picture["cuts"];
    const auto num_variants = dataset.options().subsets[entry.subset].augmentation.num_variants;
    for (int64_t variant = 0; variant < std::max<int64_t>(1, num_variants); ++variant) {
      auto cut = cut_of(dataset, row, variant);
      if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(std::move(cut));
    }
  }
  json all{{"pictures", json::array()}, {"unusable", json::array()}};
  for (auto& [file, picture] : pictures) all["pictures"].push_back(std::move(picture));
  for (const auto& [row, reason] : dataset.bad_samples()) all["unusable"].push_back({{"row", dataset.name_of(row)}, {"reason", reason}});
  return all.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

}  // namespace burnish::app
