#include "models/model.h"

#include "base/error.h"

namespace burnish::models {

void Model::check_picture(const Extent& extent) const {
  auto division = size_division();
  const auto& [height, width, num_frames] = extent;
  if (height < division || width < division || height % division || width % division)
    config_error("models", "height and width must be multiples of {} pixels for this model, not {} and {}", division, height, width);
  if (num_frames != 1) config_error("models", "this model makes pictures, which are one frame, not {}", num_frames);
}

}  // namespace burnish::models
