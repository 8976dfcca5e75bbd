#include "data/read_row.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/random_key.h"
#include "base/text.h"
#include "data/clip.h"
#include "data/several.h"
#include "data/sound.h"
#include "data/window_beside.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::data {

namespace {

using Is = Column::Is;

const Subset& subset_of(const Dataset& dataset, int64_t row) { return dataset.options().subsets[dataset.row(row).subset]; }

/// Every picture of these files as `crop` says; each must still be of the size that it had when it was looked at.
CropOf same_crop(const Crop& crop, const Size& known) {
  return [=](const std::string& file, const Size& found) {
    check_unchanged(file, known, found);
    return crop;
  };
}

/// A single frame is a picture.
at::Tensor as_cell(const at::Tensor& frames_FHWC) { return frames_FHWC.size(0) == 1 ? frames_FHWC[0] : frames_FHWC; }

/// A picture is a single frame.
at::Tensor as_frames(const at::Tensor& cell) { return cell.dim() == 3 ? cell.unsqueeze(0) : cell; }

/// The frames of a row's file, or of one beside it, that are taken with the row's. Folders hold frames without times.
ClipWindow window_of(const Dataset& dataset, const Row& row, const std::string& file) {
  if (file == row.file) return *row.window;
  return window_beside(*row.window, rule_of(row, dataset.options()), !io::is_folder(row.file), !io::is_folder(file));
}

/// Tells whether a row's cell in a column has each of the frames that are taken of its target.
bool has_frames(const Dataset& dataset, int64_t number, const Column& column) {
  return dataset.row(number).window && !dataset.looked(number).stills.contains(column.name);
}

at::Tensor read_alike(const Dataset& dataset, int64_t number, const Column& column, const std::vector<std::string>& files,
                      const CropOf& cut) {
  const auto& row = dataset.row(number);
  if (column.is == Is::layers) return read_layers(files, cut);
  if (takes_several(column) && files.size() > 1) {
    std::vector<at::Tensor> clips;
    for (const auto& file : files) clips.push_back(as_frames(read_alike(dataset, number, column, {file}, cut)));
    return at::cat(clips);
  }
  if (has_frames(dataset, number, column)) return as_cell(read_frames(files[0], window_of(dataset, row, files[0]), pixels_of(column), cut));
  return read_picture(files[0], pixels_of(column), cut);
}

/// The white pixels that a row has in a column that it leaves empty.
at::Tensor white(const Dataset& dataset, int64_t number, const Column& column) {
  const auto extent = column.extent_beside(dataset.extent(number));
  return as_cell(at::full({extent.frames, extent.height, extent.width, column.channels}, 255, at::kByte));
}

at::Tensor read_beside(const Dataset& dataset, int64_t number, const Column& column, int64_t variant) {
  const auto& row = dataset.row(number);
  const auto& looked = dataset.looked(number);
  const auto files = files_in(row, column.name);
  if (files.empty() && column.given == Column::Given::or_white) return white(dataset, number, column);
  if (files.empty() && column.is == Is::mask) return {};
  if (files.empty()) data_error("data", "{} names no picture in the column '{}'", dataset.name_of(number), column.name);
  auto crop = crop_of(dataset, number, variant);
  if (column.fit != Column::Fit::square) return read_alike(dataset, number, column, files, same_crop(crop, looked.picture));
  const auto& size = looked.sizes.at(column.name)[0];
  auto square = centre_crop(size, {column.side, column.side});
  square.flip = crop.flip;
  return read_alike(dataset, number, column, files, same_crop(square, size));
}

std::vector<at::Tensor> read_list(const Dataset& dataset, int64_t number, const Column& column, int64_t variant) {
  const auto files = files_in(dataset.row(number), column.name);
  const auto crops = picture_crops(dataset, number, column, variant);
  const auto& sizes = dataset.looked(number).sizes.at(column.name);
  std::vector<at::Tensor> pictures;
  for (size_t i = 0; i < crops.size(); ++i) pictures.push_back(read_picture(files.at(i), pixels_of(column), same_crop(crops[i], sizes[i])));
  return pictures;
}

/// The references of a row, one behind the other.
std::vector<at::Tensor> read_references(const Dataset& dataset, int64_t number, const Column& column, int64_t variant) {
  std::vector<at::Tensor> all;
  for (const auto& found : dataset.looked(number).references) {
    auto one = read(column, found, reference_size(dataset, number), crop_of(dataset, number, variant).flip);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// How opaque a row's target is, each of its frames or layers.
at::Tensor read_opacity(const Dataset& dataset, int64_t number, int64_t variant) {
  const auto& row = dataset.row(number);
  const auto cut = same_crop(crop_of(dataset, number, variant), dataset.looked(number).picture);
  if (target_of(dataset.options().columns).is == Is::layers) return read_layers(target_files(row), cut).narrow(-1, 3, 1).contiguous();
  return row.window ? as_cell(read_frames(row.file, *row.window, Pixels::alpha, cut)) : read_picture(row.file, Pixels::alpha, cut);
}

/// The file that holds a row's sound: the one that the column names, else its clip or picture.
std::string sound_file(const Row& row, const Column& column) {
  auto own = row.cells.find(column.name);
  const auto named = own != row.cells.end() && own->is_string() ? std::string(trim(own->get<std::string>())) : "";
  return named.empty() ? row.file : named;
}

/// The window of a row's frames; numbered frames are shown as fast as they are asked for.
ClipWindow window_of(const Dataset& dataset, int64_t number) {
  const auto& row = dataset.row(number);
  const auto asked = rule_of(row, dataset.options()).rate;
  auto window = row.window.value_or(ClipWindow{.first = 0, .count = 1, .rate = asked});
  if (io::is_folder(row.file)) window.rate = asked;
  return window;
}

/// The stretch of time of a row's frames.
SoundWindow time_of(const Dataset& dataset, int64_t number) {
  const auto window = window_of(dataset, number);
  return {{window.first * window.rate.den, window.rate.num}, {window.count * window.rate.den, window.rate.num}};
}

at::Tensor read_sound_of(const Dataset& dataset, int64_t number, const Column& column) {
  const auto& row = dataset.row(number);
  const auto time = time_of(dataset, number);
  const auto file = sound_file(row, column);
  if (file == row.file && !is_video(file)) return no_sound(column, time.length.num * column.rate / time.length.den);
  return read_sound(column, file, time);
}

std::string sound_content(const Dataset& dataset, int64_t number, const Column& column, int64_t variant, const RowHashes& hashes) {
  const auto& row = dataset.row(number);
  const auto file = sound_file(row, column);
  const auto hash = file == row.file ? hashes.at("") : io::file_hash(file);
  const auto channels = column.channels == 1 ? "" : fmt::format(" in {} channels", column.channels);
  auto content = fmt::format("sound of {} at {}{}, {}", hash, column.rate, channels, content_of_crop(dataset, number, variant));
  // A window of numbered frames says nothing of their time.
  if (io::is_folder(row.file)) content += fmt::format(", heard at {} frames a second", frame_rate(dataset, number));
  return content;
}

/// The hashes of a row's further files of these names, a blank before each, up to the first that is not there.
std::string hashes_of(const RowHashes& hashes, int64_t first, const std::function<std::string(int64_t number)>& name_of) {
  std::string text;
  for (auto k = first;; ++k) {
    auto hash = hashes.find(name_of(k));
    if (hash == hashes.end()) return text;
    text += " " + hash->second;
  }
}

std::string list_content(const Dataset& dataset, int64_t number, const Column& column, int64_t variant, const RowHashes& hashes) {
  std::string content = "references";
  size_t picture = 0;
  for (const auto& crop : picture_crops(dataset, number, column, variant)) {
    const auto& hash = hashes.at(picture_name(column.name, picture++));
    content += fmt::format(", sRGB picture {} cut to {}{}", hash, spelled(extent_of(crop.size)), crop.flip ? " mirrored" : "");
  }
  return content;
}

/// Names what is read of a row's references, in their order.
std::string references_content(const Dataset& dataset, int64_t number, const Column& column, int64_t variant, const RowHashes& hashes) {
  std::string content = "references";
  size_t file = 0;
  const auto size_of = reference_size(dataset, number);
  for (const auto& found : dataset.looked(number).references) {
    const auto& [kind, seen, heard] = found.reference;
    const auto& window = found.window;
    if (!seen.empty()) content += fmt::format(", seen {}", hashes.at(picture_name(column.name, file++)));
    if (!seen.empty() && kind != Reference::Kind::picture)
      content += fmt::format(" cut to {}, {} frames at {}/{} a second", spelled(extent_of(size_of(seen, found.size))), window.count,
                             window.rate.num, window.rate.den);
    if (!heard.empty())
      content += fmt::format(", heard {}, {} samples at {}", hashes.at(picture_name(column.name, file++)), found.num_samples, column.rate);
  }
  return content + (crop_of(dataset, number, variant).flip ? " mirrored" : "");
}

}  // namespace

int64_t num_variants(const Dataset& dataset) {
  int64_t most = 1;
  for (const auto& subset : dataset.options().subsets) most = std::max(most, subset.augmentation.num_variants);
  return most;
}

Crop crop_of(const Dataset& dataset, int64_t row, int64_t variant) {
  const auto& how = subset_of(dataset, row).augmentation;
  const auto& looked = dataset.looked(row);
  auto crop = centre_crop(looked.picture, looked.size);
  auto name = dataset.row(row).name;
  CounterRandom random(RandomKey{0, static_cast<uint64_t>(variant) + 1, name, Purpose::augmentation}.value());
  if (how.random_crop) {
    auto scaled = covering_size(looked.picture, looked.size);
    crop.top = static_cast<int64_t>(random.below(static_cast<uint64_t>(scaled.height - looked.size.height + 1)));
    crop.left = static_cast<int64_t>(random.below(static_cast<uint64_t>(scaled.width - looked.size.width + 1)));
  }
  CounterRandom coin(RandomKey{0, 0, name, Purpose::augmentation}.value());
  crop.flip = how.fixed_flip || (how.random_flip && (static_cast<uint64_t>(variant) + coin.below(2)) % 2 == 1);
  crop.alteration = alteration_of(how, name, variant);
  return crop;
}

double frame_rate(const Dataset& dataset, int64_t row) {
  constexpr double kParts = 8;
  const auto own = number_of(window_of(dataset, row).rate), asked = number_of(rule_of(dataset.row(row), dataset.options()).rate);
  return std::abs(own - asked) * kParts < 0.5 ? asked : std::max(1.0, std::round(own * kParts)) / kParts;
}

std::vector<Crop> picture_crops(const Dataset& dataset, int64_t row, const Column& column, int64_t variant) {
  auto flip = crop_of(dataset, row, variant).flip;
  const auto& rule = subset_of(dataset, row).size;
  std::vector<Crop> crops;
  for (const auto& size : dataset.looked(row).sizes.at(column.name)) {
    crops.push_back(centre_crop(size, column.fit == Column::Fit::whole ? size : target_size(rule, size, dataset.row(row).file)));
    crops.back().flip = flip;
  }
  return crops;
}

CutSizeOf reference_size(const Dataset& dataset, int64_t row) {
  return [&rule = subset_of(dataset, row).size](const std::string& file, const Size& frame) { return target_size(rule, frame, file); };
}

std::vector<Extent> reference_extents(const Dataset& dataset, int64_t row) {
  std::vector<Extent> all;
  for (const auto& found : dataset.looked(row).references) {
    auto extents = extents_of(found, reference_size(dataset, row));
    all.insert(all.end(), extents.begin(), extents.end());
  }
  return all;
}

Cell read(const Dataset& dataset, int64_t row, const Column& column, int64_t variant) {
  const auto& looked = dataset.looked(row);
  if (column.is == Is::opacity) return read_opacity(dataset, row, variant);
  if (column.is == Is::pictures) return read_list(dataset, row, column, variant);
  if (column.is == Is::references) return read_references(dataset, row, column, variant);
  if (column.is == Is::sound) return read_sound_of(dataset, row, column);
  if (!column.is_seen()) return read_value(column, trimmed(dataset.row(row).cells.at(column.name)), dataset.name_of(row));
  if (column.fit != Column::Fit::target) return read_beside(dataset, row, column, variant);
  const auto cut = same_crop(crop_of(dataset, row, variant), looked.picture);
  return read_alike(dataset, row, column, target_files(dataset.row(row)), cut);
}

std::string content(const Dataset& dataset, int64_t row, const Column& column, int64_t variant, const RowHashes& hashes) {
  if (column.is == Is::pictures) return list_content(dataset, row, column, variant, hashes);
  if (column.is == Is::references) return references_content(dataset, row, column, variant, hashes);
  if (column.is == Is::sound) return sound_content(dataset, row, column, variant, hashes);
  const auto cut = content_of_crop(dataset, row, variant);
  if (column.is == Is::opacity) return fmt::format("alpha of {} {}", hashes.at(""), cut);
  if (!column.is_seen()) return content_of_value(trimmed(dataset.row(row).cells.value(column.name, nlohmann::json())));
  if (column.fit == Column::Fit::target) {
    const auto* kind = column.is == Is::layers ? "layers" : "picture";
    return fmt::format("sRGB {} {}{} {}", kind, hashes.at(""), hashes_of(hashes, 1, layer_name), cut);
  }
  auto files = hashes_of(hashes, 0, [&](int64_t k) { return picture_name(column.name, static_cast<size_t>(k)); });
  if (files.empty()) return column.given == Column::Given::or_white ? fmt::format("white {}", cut) : "";
  if (column.is == Is::mask) return fmt::format("mask{} {}", files, cut);
  return fmt::format("sRGB picture{} {}{}", files, cut,
                     column.fit == Column::Fit::square ? fmt::format(", a square of {}", column.side) : "");
}

std::string content_of_crop(const Dataset& dataset, int64_t row, int64_t variant) {
  auto crop = crop_of(dataset, row, variant);
  auto centre = centre_crop(dataset.looked(row).picture, crop.size);
  auto content = "cut to " + spelled(extent_of(crop.size));
  if (crop.top != centre.top || crop.left != centre.left) content += fmt::format(" from {},{}", crop.top, crop.left);
  if (crop.flip) content += " mirrored";
  content += spelled(crop.alteration);
  if (const auto& window = dataset.row(row).window)
    content += fmt::format(", {} frames from {} at {}/{} a second", window->count, window->first, window->rate.num, window->rate.den);
  return content;
}

nlohmann::json trimmed(const nlohmann::json& cell) {
  return cell.is_string() ? nlohmann::json(std::string(trim(cell.get<std::string>()))) : cell;
}

}  // namespace burnish::data
