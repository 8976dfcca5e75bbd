#include "train/samples/inputs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/text.h"
#include "data/read_row.h"
#include "data/several.h"
#include "io/hash.h"

namespace burnish::train {

namespace {

std::string prompt_of(const Samples& samples, const Pick& pick) { return pick.empty_caption ? "" : samples.caption_of(pick); }

std::string prompt_content(const Samples& samples, const Pick& pick, const data::RowHashes&) {
  return "text " + io::sha256(prompt_of(samples, pick));
}

pipeline::Value load_prompt(const Samples& samples, const Pick& pick) { return prompt_of(samples, pick); }

/// Bytes [H, W, C], of a clip [F, H, W, C], in place of those that a plan does without.
at::Tensor any_pixels(const Extent& extent, int64_t channels) {
  std::vector<int64_t> shape{extent.height, extent.width, channels};
  if (extent.frames > 1) shape.insert(shape.begin(), extent.frames);
  return at::zeros({}, at::kByte).expand(shape);
}

/// Returns something of the shape of a cell, for a sample without its picture.
data::Cell any_cell(const Sample& sample, const Column& column, double frame_rate) {
  if (column.is == Column::Is::sound)
    return data::silence(column, std::llround(static_cast<double>(sample.extent.frames * column.rate) / frame_rate));
  if (column.fit == Column::Fit::target) return any_pixels(sample.extent, column.channels);
  if (column.is != Column::Is::pictures && column.is != Column::Is::references) {
    auto extent = column.extent_beside(sample.extent);
    if (data::takes_several(column)) extent.frames *= std::ssize(sample.picture_extents.at(column.name));
    return any_pixels(extent, column.channels);
  }
  std::vector<at::Tensor> pictures;
  for (const auto& extent : sample.picture_extents.at(column.name))
    pictures.push_back(extent.height == 0 ? at::zeros({kSidesOfReferences, extent.frames}) : any_pixels(extent, column.channels));
  return pictures;
}

/// Returns a cell as units read it, with a leading dimension of 1.
pipeline::Value value_of(const data::Cell& cell) {
  if (const auto* pictures = std::get_if<std::vector<at::Tensor>>(&cell)) return pipeline::TensorLists{*pictures};
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return std::get<at::Tensor>(cell).unsqueeze(0);
}

std::string content_of(const Samples& samples, const Pick& pick, const Column& column, const data::RowHashes& hashes) {
  return pick.row == kNoRow ? "" : data::content(*samples.pictures, pick.row, column, pick.variant, hashes);
}

/// The frames a second of a sample.
double rate_of(const Samples& samples, const Pick& pick) {
  const auto rate = pick.row == kNoRow ? 0 : samples.at(pick.row).frame_rate;
  return rate > 0 ? rate : target_of(samples.columns).frames.rate;
}

std::string rate_content(const Samples& samples, const Pick& pick, const data::RowHashes&) {
  return fmt::format("{} frames a second", rate_of(samples, pick));
}

pipeline::Value load_rate(const Samples& samples, const Pick& pick) { return at::scalar_tensor(rate_of(samples, pick), at::kDouble); }

std::string length_content(const Samples& samples, const Pick& pick, const data::RowHashes&) {
  return pick.row == kNoRow ? "" : fmt::format("{} frames", samples.at(pick.row).extent.frames);
}

pipeline::Value load_length(const Samples& samples, const Pick& pick) {
  return at::scalar_tensor(samples.at(pick.row).extent.frames, at::kLong);
}

pipeline::Value load(const Samples& samples, const Pick& pick, const Column& column) {
  if (samples.pictures == nullptr) return value_of(any_cell(samples.at(pick.row), column, rate_of(samples, pick)));
  return value_of(data::read(*samples.pictures, pick.row, column, pick.variant));
}

std::string image_content(const Samples& samples, const Pick& pick, const data::RowHashes& hashes) {
  return content_of(samples, pick, target_of(samples.columns), hashes);
}

pipeline::Value load_image(const Samples& samples, const Pick& pick) { return load(samples, pick, target_of(samples.columns)); }

std::string no_prompt_content(const Samples&, const Pick&, const data::RowHashes&) { return "text " + io::sha256(""); }

/// The column of reference pictures that these samples' run reads.
const Column& references_of(const Samples& samples) {
  if (const auto* column = find_read_as(samples.columns, kReferences)) return *column;
  throw std::logic_error("units read reference_images, and the run has no column of them");
}

std::string references_content(const Samples& samples, const Pick& pick, const data::RowHashes& hashes) {
  return pick.row == kNoRow ? "" : content_of(samples, pick, references_of(samples), hashes);
}

pipeline::Value load_references(const Samples& samples, const Pick& pick) { return load(samples, pick, references_of(samples)); }

/// What stands in a sample's cell, without blanks around it.
nlohmann::json cell_of(const Sample& sample, const Column& column) {
  return data::trimmed(sample.row.cells.value(column.name, nlohmann::json()));
}

/// The value of a column that holds no pictures; of a row that leaves it empty, which only the column of a stream may be, one without
/// elements.
pipeline::Value load_cell(const Sample& sample, const Column& column) {
  if (has_column(sample, column.name)) {
    auto cell = data::read_value(column, cell_of(sample, column), fmt::format("row {}", sample.number));
    // Sizes are made of a number that a batch has alike: as one without dimensions it stays on the host, where a plan reads it too.
    const auto* number = column.fit == Column::Fit::alike ? std::get_if<at::Tensor>(&cell) : nullptr;
    return number != nullptr && number->numel() == 1 ? number->squeeze() : value_of(cell);
  }
  if (column.is == Column::Is::text) return std::string();
  return at::zeros({1, 0});
}

/// A column whose cells stand in a cache's list.
Input input_in_list(const Column& column) {
  auto content = [column](const Samples& samples, const Pick& pick, const data::RowHashes&) {
    return pick.row == kNoRow ? "" : data::content_of_value(cell_of(samples.at(pick.row), column));
  };
  return {column.read_as(), true, content,
          [column](const Samples& samples, const Pick& pick) { return load_cell(samples.at(pick.row), column); }};
}

/// A column that units read, as a run's model reads it or else as it is declared.
Input input_of(const Column& declared) {
  if (!declared.is_seen() && declared.is != Column::Is::sound) return input_in_list(declared);
  auto column_in = [declared](const Samples& samples) {
    const auto* own = find_read_as(samples.columns, declared.read_as());
    return own != nullptr ? *own : declared;
  };
  auto content = [column_in](const Samples& samples, const Pick& pick, const data::RowHashes& hashes) {
    return content_of(samples, pick, column_in(samples), hashes);
  };
  return {declared.read_as(), false, content,
          [column_in](const Samples& samples, const Pick& pick) { return load(samples, pick, column_in(samples)); }};
}

pipeline::Value load_no_prompt(const Samples&, const Pick&) { return std::string(); }

std::string size_content(const Samples& samples, const Pick& pick, const data::RowHashes&) {
  if (pick.row == kNoRow) return "";
  if (samples.pictures == nullptr) return spelled(samples.at(pick.row).extent);
  auto original = samples.pictures->looked(pick.row).picture;
  return fmt::format("{} {}", spelled(data::extent_of(original)), data::content_of_crop(*samples.pictures, pick.row, pick.variant));
}

/// [1, 6], see models::UnitGroups; of a mirrored picture, as its mirror image was cut, and without one as if it had that very size.
pipeline::Value load_size(const Samples& samples, const Pick& pick) {
  if (samples.pictures == nullptr) {
    const auto& extent = samples.at(pick.row).extent;
    auto height = static_cast<float>(extent.height), width = static_cast<float>(extent.width);
    return at::tensor({height, width, 0.f, 0.f, height, width}).unsqueeze(0);
  }
  auto original = samples.pictures->looked(pick.row).picture;
  auto crop = data::crop_of(*samples.pictures, pick.row, pick.variant);
  auto left = crop.flip ? data::covering_size(original, crop.size).width - crop.left - crop.size.width : crop.left;
  std::vector<float> numbers;
  for (auto number : {original.height, original.width, crop.top, left, crop.size.height, crop.size.width})
    numbers.push_back(static_cast<float>(number));
  return at::tensor(numbers).unsqueeze(0);
}

/// [h, w] of the sample's latents; of a clip's [F, h, w].
at::IntArrayRef grid_of(const Sample& sample) {
  at::IntArrayRef shape(sample.latent_shape);
  return shape.slice(shape.size() == 4 && shape[1] > 1 ? 1 : shape.size() - 2);
}

/// [1, 1, h, w] or [1, 1, F, h, w].
std::vector<int64_t> mask_shape(at::IntArrayRef grid) {
  std::vector<int64_t> shape{1, 1};
  shape.insert(shape.end(), grid.begin(), grid.end());
  return shape;
}

std::string mask_content(const Samples& samples, const Pick& pick, const data::RowHashes& hashes) {
  if (pick.row == kNoRow) return "";
  const auto* column = mask_of(samples.columns);
  auto content = column == nullptr ? "" : content_of(samples, pick, *column, hashes);
  auto size = fmt::format("{}", fmt::join(grid_of(samples.at(pick.row)), "x"));
  return content.empty() ? "all of " + size : fmt::format("{} on {}", content, size);
}

/// [F, 1, h, w] on the grid of latents: each is the mean over as many frames as it is made of, the first of the clip, or of a step where
/// steps are no multiple of these, over those that are left.
at::Tensor over_frames(const at::Tensor& mask_F1hw, int64_t num_latents, int64_t step) {
  const auto num_frames = mask_F1hw.size(0);
  if (num_frames == 1) return mask_F1hw.expand({num_latents, -1, -1, -1});
  const auto of_latent = (num_frames - 1 + num_latents - 2) / (num_latents - 1);
  const bool begins_anew = step % of_latent != 0;
  std::vector<at::Tensor> means;
  for (int64_t first = 0; first < num_frames;) {
    const bool is_first = first == 0 || (begins_anew && first % step == 0);
    const auto count = is_first ? 1 : of_latent;
    means.push_back(mask_F1hw.narrow(0, first, count).mean(0, /*keepdim=*/true));
    first += count;
  }
  return at::cat(means);
}

/// [1, 1, h, w] fp32 on the grid of latents, of a clip [1, 1, F, h, w]: of the pixels below each, the mean of how much they count, from 0
/// to 1.
pipeline::Value load_mask(const Samples& samples, const Pick& pick) {
  auto grid = grid_of(samples.at(pick.row));
  const auto* column = mask_of(samples.columns);
  at::Tensor mask;
  if (samples.pictures != nullptr && column != nullptr)
    mask = std::get<at::Tensor>(data::read(*samples.pictures, pick.row, *column, pick.variant));
  if (!mask.defined()) return at::ones(mask_shape(grid));
  auto frames = mask.dim() == 4 ? mask : mask.unsqueeze(0);  // [F, H, W, 1]
  auto pooled = at::adaptive_avg_pool2d(frames.permute({0, 3, 1, 2}).to(at::kFloat), grid.slice(grid.size() - 2)) / 255;
  return grid.size() == 2 ? pooled
                          : over_frames(pooled, grid[0], target_of(samples.columns).frames.step).transpose(0, 1).unsqueeze(0).contiguous();
}

}  // namespace

Column further_picture(const std::string& name) { return {.name = name, .is = Column::Is::clip, .fit = Column::Fit::as_target}; }

void add_masks(Columns& columns, const std::string& from, const std::string& column) {
  if (from == "column") columns.push_back(mask_column(column));
  if (from == "alpha") columns.push_back(opacity_column());
}

InputTable::InputTable(const Columns& columns, const std::vector<std::string>& pictures, std::vector<Input> further,
                       std::set<std::string> drawn)
    : rows_{{"prompt", true, prompt_content, load_prompt, /*follows_caption=*/true},
            {kTarget, false, image_content, load_image},
            {"mask", false, mask_content, load_mask},
            {kNumFrames, true, length_content, load_length},
            {kRateOfFrames, true, rate_content, load_rate},
            {"negative_prompt", true, no_prompt_content, load_no_prompt},
            {kReferences, false, references_content, load_references},
            {"size_conditioning", false, size_content, load_size}},
      drawn_(std::move(drawn)) {
  for (const auto& column : columns) rows_.push_back(input_of(column));
  for (const auto& column : pictures) rows_.push_back(input_of(further_picture(column)));
  std::ranges::move(further, std::back_inserter(rows_));
  std::set<std::string> seen(kDrawn);
  for (const auto& name : drawn_) seen.insert(name);
  for (const auto& input : rows_) {
    if (!seen.insert(input.name).second)
      throw std::logic_error(fmt::format("two values that samples and visits bring are called '{}'; give one another name", input.name));
  }
}

const Input* InputTable::find(const std::string& name) const {
  auto it = std::ranges::find(rows_, name, &Input::name);
  return it == rows_.end() ? nullptr : &*it;
}

std::map<std::string, pipeline::Labels> InputTable::labels(bool captions_vary) const {
  std::map<std::string, pipeline::Labels> labels;
  for (const auto& input : rows_) labels[input.name] = {.sample = true, .timestep = captions_vary && input.follows_caption};
  for (const auto& name : kDrawn) labels[name].timestep = true;
  for (const auto& name : drawn_) labels[name].timestep = true;
  return labels;
}

}  // namespace burnish::train
