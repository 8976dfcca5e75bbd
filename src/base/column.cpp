#include "base/column.h"

#include <algorithm>

namespace burnish {

Extent Column::extent_beside(const Extent& target) const {
  const auto frames = is == Is::clip || is == Is::layers ? target.frames : 1;
  return fit == Fit::square ? Extent{frames, side, side} : Extent{frames, target.height, target.width};
}

const Column* find_column(const Columns& columns, const std::string& name) {
  auto found = std::ranges::find(columns, name, &Column::name);
  return found == columns.end() ? nullptr : &*found;
}

const Column* find_read_as(const Columns& columns, const std::string& value) {
  auto found = std::ranges::find(columns, value, &Column::read_as);
  return found == columns.end() ? nullptr : &*found;
}

const Column& target_of(const Columns& columns) {
  static const Column picture{.name = kTarget, .is = Column::Is::picture, .fit = Column::Fit::target, .side = 16};
  auto found = std::ranges::find(columns, Column::Fit::target, &Column::fit);
  return found == columns.end() ? picture : *found;
}

Column mask_column(const std::string& name) { return {.name = name, .is = Column::Is::mask, .fit = Column::Fit::as_target, .channels = 1}; }

Column opacity_column() { return {.name = "", .is = Column::Is::opacity, .fit = Column::Fit::as_target, .channels = 1}; }

const Column* mask_of(const Columns& columns) {
  auto is_mask = [](const Column& column) { return column.is == Column::Is::mask || column.is == Column::Is::opacity; };
  auto found = std::ranges::find_if(columns, is_mask);
  return found == columns.end() ? nullptr : &*found;
}

bool is_clip_of(const Column& target, const Extent& extent) { return extent.frames > 1 && target.is != Column::Is::layers; }

}  // namespace burnish
