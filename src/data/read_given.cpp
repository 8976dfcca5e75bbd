#include "data/read_given.h"

#include <ATen/ops/cat.h>

#include "base/input_error.h"
#include "data/clip.h"
#include "data/found_references.h"
#include "data/image.h"
#include "data/resize.h"
#include "data/several.h"

namespace burnish::data {

namespace {

using Fit = Column::Fit;
using Is = Column::Is;

int64_t drawn_area(const DrawnTarget& target) { return target.extent.height * target.extent.width; }

/// Returns how pictures of a column are brought to size: by their own, as training scales them, or to that of what is drawn.
CropOf crop_for(const Column& column, const DrawnTarget& target) {
  const auto drawn = frame_of(column.extent_beside(target.extent));
  const SizeRule own{.max_pixels = column.read_as() == kReferences ? target.max_pixels : drawn_area(target),
                     .division = target.column.side};
  return [=, fit = column.fit](const std::string& file, const Size& size) {
    if (fit == Fit::whole) return centre_crop(size, size);
    return centre_crop(size, fit == Fit::own_size ? target_size(own, size, file) : drawn);
  };
}

/// The rule by which frames are taken of a clip: its first ones, as many as are drawn.
ClipRule rule_for(const DrawnTarget& target) {
  const auto& frames = target.column.frames;
  return {.num_frames = target.extent.frames, .rate = as_fraction(frames.rate), .first_frames = frames.first, .step = frames.step};
}

at::Tensor read_first_frames(const Column& column, const std::string& file, const DrawnTarget& target) {
  const auto window = windows_of(rule_for(target), look_at_clip(file), file).front();
  if (window.count < target.extent.frames)
    data_error("drawing", "{} has {} frames at {} a second, and {} are drawn; give a longer clip, or ask for fewer with --num_frames", file,
               window.count, window.rate.num / window.rate.den, target.extent.frames);
  return read_frames(file, window, pixels_of(column), crop_for(column, target));
}

/// References, each named by its file or as JSON; clips are scaled to the area of what is drawn.
std::vector<at::Tensor> read_references(const Column& column, const std::vector<std::string>& cells, const DrawnTarget& target) {
  auto rule = rule_for(target);
  rule.may_be_slower = true;
  const SizeRule size{.max_pixels = drawn_area(target), .division = target.column.side};
  const auto size_of = [&](const std::string& file, const Size& frame) { return target_size(size, frame, file); };
  std::vector<at::Tensor> all;
  for (const auto& cell : cells) {
    for (const auto& reference : references_in(cell, column.name)) {
      const auto look = [&](const std::string& file) {
        if (reference.kind != Reference::Kind::picture) return look_at_clip(file);
        return ClipLook{.size = image_size(file), .num_frames = 1, .duration = {}};
      };
      auto one = read(column, find_reference(column, reference, rule, look), size_of, /*is_mirrored=*/false);
      all.insert(all.end(), one.begin(), one.end());
    }
  }
  return all;
}

}  // namespace

at::Tensor read_beginning(const Column& column, const std::string& file, const DrawnTarget& target, int64_t count) {
  if (count >= target.extent.frames)
    config_error("drawing", "the first {} frames are given, and {} are drawn; ask for more with --num_frames", count, target.extent.frames);
  const ClipRule rule{.num_frames = count, .rate = as_fraction(target.column.frames.rate), .step = 1};
  const auto window = windows_of(rule, look_at_clip(file), file).front();
  if (window.count < count)
    data_error("drawing", "{} has {} frames at this rate, and the first {} are given; name a longer clip, or give fewer", file,
               window.count, count);
  return read_frames(file, window, pixels_of(column), crop_for(column, target));
}

Cell read_given(const Column& column, const std::vector<std::string>& cells, const DrawnTarget& target) {
  if (column.is == Is::references) return read_references(column, cells, target);
  if (column.is == Is::pictures) return read_pictures(cells, pixels_of(column), crop_for(column, target));
  if (column.is == Is::sound) {
    const auto rate = as_fraction(target.column.frames.rate);
    return read_sound(column, cells.front(), {{0, 1}, {target.extent.frames * rate.den, rate.num}});
  }
  if (!column.is_seen()) return read_value(column, cells.size() == 1 ? nlohmann::json(cells[0]) : nlohmann::json(cells), "a prompt");
  if (takes_several(column) && cells.size() > 1) {
    std::vector<at::Tensor> clips;
    for (const auto& cell : cells) {
      const auto clip = std::get<at::Tensor>(read_given(column, {cell}, target));
      clips.push_back(clip.dim() == 3 ? clip.unsqueeze(0) : clip);
    }
    return at::cat(clips);
  }
  if (cells.size() != 1) config_error("drawing", "{} names one clip for each that is drawn, and {} are given", column.name, cells.size());
  if (target.extent.frames > 1 || is_video(cells[0])) return read_first_frames(column, cells[0], target);
  return read_picture(cells[0], pixels_of(column), crop_for(column, target));
}

}  // namespace burnish::data
