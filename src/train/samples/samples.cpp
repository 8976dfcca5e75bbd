#include "train/samples/samples.h"

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "models/model/latent_space.h"

namespace burnish::train {

const std::vector<int64_t>& shape_of(const Sample& sample, const std::string& stream) {
  return stream == models::kLatents ? sample.latent_shape : sample.further_latents.at(stream);
}

bool has_column(const Sample& sample, const std::string& column) {
  if (auto extents = sample.picture_extents.find(column); extents != sample.picture_extents.end()) return !extents->second.empty();
  const auto& cells = sample.row.cells;
  auto cell = cells.find(column);
  return cell != cells.end() && !cell->is_null() && !(cell->is_string() && trim(cell->get<std::string>()).empty());
}

const Sample& Samples::at(int64_t row) const {
  auto it = std::ranges::lower_bound(list, row, {}, &Sample::number);
  if (it == list.end() || it->number != row) data_error("train", "row {} is not among the {} usable samples", row, list.size());
  return *it;
}

std::string Samples::caption_of(const Pick& pick) const {
  if (pick.row == kNoRow) return "";
  return pick.caption ? *pick.caption : at(pick.row).row.prompt;
}

}  // namespace burnish::train
