#include "studio/masks.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <system_error>

#include "base/input_error.h"
#include "data/caption_places.h"
#include "data/clip.h"
#include "data/folder_contents.h"
#include "data/frame_files.h"
#include "data/image.h"
#include "data/resize.h"

namespace burnish::studio {

namespace fs = std::filesystem;

std::optional<fs::path> mask_of(const fs::path& picture) {
  const auto stem = picture.stem().string();
  std::error_code error;
  for (fs::directory_iterator entry(picture.parent_path(), error), end; entry != end; entry.increment(error)) {
    const auto& path = entry->path();
    const auto name = path.stem().string();
    if (!name.starts_with(stem) || !data::is_picture_name(path)) continue;
    if (std::ranges::find(data::kMaskNames, std::string_view(name).substr(stem.size())) != data::kMaskNames.end()) return path;
  }
  return std::nullopt;
}

void write_mask(const fs::path& picture, std::string_view bytes) {
  const auto drawn = data::gray_of(data::decode_upright(bytes, "the mask of " + picture.filename().string()));
  const auto size = data::is_video(picture) ? data::look_at_clip(picture).size : data::image_size(picture);
  const data::Size given{drawn.size(0), drawn.size(1)};
  if (given != size && given != data::within(size, std::max(given.height, given.width)))
    config_error("studio", "the mask is of {} by {} pixels and its picture of {} by {}; give one of its shape", given.width, given.height,
                 size.width, size.height);
  const auto old = mask_of(picture);
  data::write_mask({picture, old.value_or(data::mask_beside(picture)), old.has_value()}, data::resize_and_crop(drawn, size));
}

void remove_mask(const fs::path& picture) {
  std::error_code ignored;
  if (const auto mask = mask_of(picture)) fs::remove(*mask, ignored);
}

}  // namespace burnish::studio
