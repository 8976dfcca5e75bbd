#include "train/samples/inputs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "base/text.h"
#include "data/row_sound.h"
#include "io/hash.h"
#include "models/model/extra_values.h"
#include "models/registry.h"

namespace burnish::train {

namespace {

const std::string& prompt_of(const View& view) {
  static const std::string empty;
  return view.empty_caption ? empty : caption_of(view);
}

std::string prompt_content(const View& view) { return "text " + io::sha256(prompt_of(view)); }

pipeline::Value load_prompt(const View& view) { return prompt_of(view); }

/// "cut to 512x512 from 3,0 mirrored"
std::string cut_content(const View& view) {
  auto row = view.sample->row;
  auto crop = view.pictures->crop(row, view.variant);
  auto content = "cut to " + spelled(data::extent_of(crop.size));
  if (!view.pictures->is_centre(row, crop)) content += fmt::format(" from {},{}", crop.top, crop.left);
  if (crop.flip) content += " mirrored";
  content += data::spelled(crop.alteration);
  if (const auto& window = view.pictures->entry(row).window)
    content += fmt::format(", {} frames from {} at {}/{} a second", window->count, window->first, window->rate.num, window->rate.den);
  return content;
}

/// The hashes of further files, the first of that name, of which there is one for each number from `first` on.
std::string hashes_behind(const View& view, int64_t first, const std::function<std::string(int64_t number)>& name_of) {
  std::string hashes;
  for (auto k = first;; ++k) {
    auto hash = view.further_hashes.find(name_of(k));
    if (hash == view.further_hashes.end()) return hashes;
    hashes += " " + hash->second;
  }
}

std::string image_content(const View& view) {
  if (view.sample == nullptr) return "";
  if (view.sample->pixel_channels == 4)
    return fmt::format("sRGB layers {}{} {}", view.picture_hash, hashes_behind(view, 1, data::layer_name), cut_content(view));
  return fmt::format("sRGB picture {} {}", view.picture_hash, cut_content(view));
}

/// Bytes [H, W, C], of a clip [F, H, W, C], in place of those that a plan does without.
at::Tensor any_pixels(const Extent& extent, int64_t channels) {
  std::vector<int64_t> shape{extent.height, extent.width, channels};
  if (extent.frames > 1) shape.insert(shape.begin(), extent.frames);
  return at::zeros({}, at::kByte).expand(shape);
}

pipeline::Value load_image(const View& view) {
  if (view.pictures == nullptr) return any_pixels(view.sample->extent, view.sample->pixel_channels).unsqueeze(0);
  return view.pictures->load(view.sample->row, view.variant).pixels_HW3.unsqueeze(0);
}

std::string no_prompt_content(const View&) { return "text " + io::sha256(""); }

/// What each picture of a column is, and how it is cut.
std::string pictures_content(const View& view, const std::string& column) {
  if (view.sample == nullptr) return "";
  std::string content = "references";
  size_t number = 0;
  for (const auto& crop : view.pictures->picture_crops(view.sample->row, column, view.variant)) {
    auto hash = view.further_hashes.at(data::picture_name(column, number++));
    content += fmt::format(", sRGB picture {} cut to {}{}", hash, spelled(data::extent_of(crop.size)), crop.flip ? " mirrored" : "");
  }
  return content;
}

pipeline::Value load_pictures(const View& view, const std::string& column) {
  if (view.pictures != nullptr) return pipeline::TensorLists{view.pictures->load_pictures(view.sample->row, column, view.variant)};
  std::vector<at::Tensor> any;
  for (const auto& extent : view.sample->picture_extents.at(column)) any.push_back(any_pixels(extent, view.sample->pixel_channels));
  return pipeline::TensorLists{any};
}

/// Of the columns that families call reference pictures, the one that this sample's run reads.
std::string reference_column_of(const View& view) {
  for (const auto& column : models::reference_columns()) {
    if (view.sample->picture_extents.contains(column)) return column;
  }
  throw std::logic_error("units read reference_images, and the run has no column of them");
}

std::string references_content(const View& view) { return view.sample == nullptr ? "" : pictures_content(view, reference_column_of(view)); }

pipeline::Value load_references(const View& view) { return load_pictures(view, reference_column_of(view)); }

/// What stands in a sample's cell, without blanks around it.
nlohmann::json cell_of(const View& view, const std::string& column) {
  auto cell = view.sample->columns.value(column, nlohmann::json());
  return cell.is_string() ? nlohmann::json(trim(cell.get<std::string>())) : cell;
}

/// The cell, and where a text in it names a file what is in that.
std::string text_content(const View& view, const std::string& column) {
  if (view.sample == nullptr) return "";
  auto cell = cell_of(view, column);
  auto content = "cell " + cell.dump();
  for (const auto& item : cell.is_array() ? cell : nlohmann::json::array({cell})) {
    std::error_code ignored;
    if (item.is_string() && std::filesystem::is_regular_file(item.get<std::string>(), ignored))
      content += " of " + io::file_hash(item.get<std::string>());
  }
  return content;
}

/// The value of a column that holds no pictures; of a row that leaves it empty, which only the column of a stream may be, one without
/// elements.
pipeline::Value load_cell(const View& view, const models::ExtraInput& extra) {
  std::string column(extra.column);
  if (has_column(*view.sample, column)) return models::extra_value(extra, cell_of(view, column), fmt::format("row {}", view.sample->row));
  if (extra.kind == models::ExtraInput::Kind::text) return std::string();
  return at::zeros({1, 0});
}

/// A picture or clip beside the sample's own, cut as that is, or to a square.
Input further_picture(const models::ExtraInput& extra) {
  const std::string column(extra.column);
  auto content = [=, square = extra.square](const View& view) {
    auto hash = view.further_hashes.find(column);
    if (hash == view.further_hashes.end()) return std::string();
    auto name_of = [&](int64_t number) { return data::picture_name(column, static_cast<size_t>(number)); };
    auto content = fmt::format("sRGB picture {}{} {}", hash->second, hashes_behind(view, 1, name_of), cut_content(view));
    return square > 0 ? fmt::format("{}, a square of {}", content, square) : content;
  };
  auto load = [=](const View& view) -> pipeline::Value {
    if (view.pictures == nullptr) return any_pixels(extra.extent_beside(view.sample->extent), view.sample->pixel_channels).unsqueeze(0);
    return view.pictures->load_further(view.sample->row, column, view.variant).unsqueeze(0);
  };
  return {column, false, content, load};
}

/// A column that units read under its name.
Input input_of(const models::ExtraInput& extra) {
  using Kind = models::ExtraInput::Kind;
  std::string column(extra.column);
  if (extra.kind == Kind::pictures)
    return {column, false, [=](const View& view) { return pictures_content(view, column); },
            [=](const View& view) { return load_pictures(view, column); }};
  if (extra.kind == Kind::clip) return further_picture(extra);
  return {column, true, [=](const View& view) { return text_content(view, column); },
          [=](const View& view) { return load_cell(view, extra); }};
}

pipeline::Value load_no_prompt(const View&) { return std::string(); }

std::string size_content(const View& view) {
  if (view.sample == nullptr) return "";
  if (view.pictures == nullptr) return spelled(view.sample->extent);
  auto original = view.pictures->entry(view.sample->row).original_size;
  return fmt::format("{} {}", spelled(data::extent_of(original)), cut_content(view));
}

/// [1, 6], see models::UnitGroups; of a mirrored picture, as its mirror image was cut, and without one as if it had that very size.
pipeline::Value load_size(const View& view) {
  if (view.pictures == nullptr) {
    auto height = static_cast<float>(view.sample->extent.height), width = static_cast<float>(view.sample->extent.width);
    return at::tensor({height, width, 0.f, 0.f, height, width}).unsqueeze(0);
  }
  auto original = view.pictures->entry(view.sample->row).original_size;
  auto crop = view.pictures->crop(view.sample->row, view.variant);
  auto left = crop.flip ? data::covering_size(original, crop.size).width - crop.left - crop.size.width : crop.left;
  std::vector<float> numbers;
  for (auto number : {original.height, original.width, crop.top, left, crop.size.height, crop.size.width})
    numbers.push_back(static_cast<float>(number));
  return at::tensor(numbers).unsqueeze(0);
}

/// What says which of the picture's pixels count; "" when all do.
std::string mask_origin(const View& view) {
  const auto& mask = view.pictures->options().mask;
  if (mask.from == data::MaskSource::From::alpha) return "alpha of " + view.picture_hash;
  auto hash = view.further_hashes.find(mask.column);
  return hash == view.further_hashes.end() ? "" : "mask " + hash->second;
}

/// [h, w] of the sample's latents; of a clip's [F, h, w].
at::IntArrayRef grid_of(const View& view) {
  at::IntArrayRef shape(view.sample->latent_shape);
  return shape.slice(shape.size() == 4 && shape[1] > 1 ? 1 : shape.size() - 2);
}

/// [1, 1, h, w] or [1, 1, F, h, w].
std::vector<int64_t> mask_shape(at::IntArrayRef grid) {
  std::vector<int64_t> shape{1, 1};
  shape.insert(shape.end(), grid.begin(), grid.end());
  return shape;
}

std::string mask_content(const View& view) {
  if (view.sample == nullptr) return "";
  auto origin = mask_origin(view);
  auto grid = grid_of(view);
  auto size = fmt::format("{}", fmt::join(grid, "x"));
  return origin.empty() ? "all of " + size : fmt::format("{} {} on {}", origin, cut_content(view), size);
}

/// [F, 1, h, w] on the grid of latents: the first is of the first frame, each other one the mean over as many frames as it is made of.
at::Tensor over_frames(const at::Tensor& mask_F1hw, int64_t num_latents) {
  if (mask_F1hw.size(0) == 1) return mask_F1hw.expand({num_latents, -1, -1, -1});
  auto rest = mask_F1hw.narrow(0, 1, mask_F1hw.size(0) - 1);
  return at::cat({mask_F1hw.narrow(0, 0, 1), rest.unflatten(0, {num_latents - 1, -1}).mean(1)});
}

/// [1, 1, h, w] fp32 on the grid of latents, of a clip [1, 1, F, h, w]: of the pixels below each, the mean of how much they count, from 0
/// to 1.
pipeline::Value load_mask(const View& view) {
  auto grid = grid_of(view);
  auto mask = view.pictures == nullptr ? at::Tensor() : view.pictures->load_mask(view.sample->row, view.variant);
  if (!mask.defined()) return at::ones(mask_shape(grid));
  auto frames = mask.dim() == 4 ? mask : mask.unsqueeze(0);  // [F, H, W, 1]
  auto pooled = at::adaptive_avg_pool2d(frames.permute({0, 3, 1, 2}).to(at::kFloat), grid.slice(grid.size() - 2)) / 255;
  return grid.size() == 2 ? pooled : over_frames(pooled, grid[0]).transpose(0, 1).unsqueeze(0).contiguous();
}

std::string sound_content(const View& view) {
  if (view.sample == nullptr) return "";
  auto row = view.sample->row;
  auto file = data::sound_file(*view.pictures, row);
  auto hash = file == view.pictures->entry(row).file ? view.picture_hash : io::file_hash(file);
  return fmt::format("sound of {} at {}, {}", hash, data::kSoundRate, cut_content(view));
}

/// [1, N] fp32, mono.
pipeline::Value load_sound(const View& view) {
  constexpr int64_t kFrameSamples = 1000;  // of 16 frames a second
  if (view.pictures == nullptr) return at::zeros({1, view.sample->extent.frames * kFrameSamples});
  return data::load_sound(*view.pictures, view.sample->row, data::kSoundRate).unsqueeze(0);
}

}  // namespace

const std::string& caption_of(const View& view) {
  static const std::string empty;
  if (view.sample == nullptr) return empty;
  return view.caption ? *view.caption : view.sample->prompt;
}

const std::vector<int64_t>& shape_of(const SampleInfo& sample, const std::string& stream) {
  return stream == models::kLatents ? sample.latent_shape : sample.further_latents.at(stream);
}

bool has_column(const SampleInfo& sample, const std::string& column) {
  if (auto extents = sample.picture_extents.find(column); extents != sample.picture_extents.end()) return !extents->second.empty();
  auto cell = sample.columns.find(column);
  return cell != sample.columns.end() && !cell->is_null() && !(cell->is_string() && trim(cell->get<std::string>()).empty());
}

InputTable::InputTable(const std::vector<models::ExtraInput>& columns, const std::vector<std::string>& pictures, std::vector<Input> further,
                       std::set<std::string> drawn)
    : rows_{{"prompt", true, prompt_content, load_prompt, /*follows_caption=*/true},
            {"image", false, image_content, load_image},
            {"mask", false, mask_content, load_mask},
            {"negative_prompt", true, no_prompt_content, load_no_prompt},
            {"reference_images", false, references_content, load_references},
            {"size_conditioning", false, size_content, load_size},
            {"sound", false, sound_content, load_sound}},
      drawn_(std::move(drawn)) {
  for (const auto& column : columns) rows_.push_back(input_of(column));
  for (const auto& column : pictures) rows_.push_back(further_picture({.column = column}));
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
