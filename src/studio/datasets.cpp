#include "studio/datasets.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/clip.h"
#include "data/frame_files.h"
#include "data/image.h"
#include "data/resize.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr float kQuality = 80;  // of thumbnails
constexpr const char* kLeftOut = ".excluded";

bool is_item(const std::string& name) {
  return is_name(name) && name.find(".mask.") == std::string::npos && (data::is_picture_name(name) || data::is_video(name));
}

/// Names in a folder that are of pictures or clips.
std::vector<std::string> item_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end; entry.increment(error)) {
    auto name = entry->path().filename().string();
    if (is_item(name) && entry->is_regular_file(error)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void move(const fs::path& from, const fs::path& to) {
  if (!io::is_there(from)) return;
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  fs::rename(from, to, error);
  if (error) data_error("studio", "{} cannot be moved to {}: {}", from.string(), to.string(), error.message());
}

}  // namespace

fs::path Item::caption_file() const { return fs::path(path).replace_extension(".txt"); }

json Datasets::list() const {
  auto all = json::array();
  for (const auto& name : Workspace::names(workspace_.datasets())) {
    const auto folder = workspace_.datasets() / name;
    const auto names = item_names(folder);
    const auto captions = std::ranges::count_if(names, [&](const auto& file) { return io::is_there(Item{folder / file}.caption_file()); });
    all.push_back({{"name", name}, {"items", names.size()}, {"captions", captions}});
  }
  return all;
}

const Datasets::Known& Datasets::known(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  const auto bytes = fs::file_size(file, error);
  auto& known = known_[file.string()];
  if (known.time == time && known.bytes == bytes && bytes > 0) return known;
  known = {.time = time, .bytes = bytes};
  try {
    if (data::is_video(file)) return known;  // read when it is shown
    const auto size = data::image_size(file);
    known.height = size.height;
    known.width = size.width;
  } catch (const Error& wrong) {
    known.problem = without_source(wrong);
  }
  return known;
}

json Datasets::describe(const Item& item) {
  const auto& file = known(item.path);
  const auto caption = item.caption_file();
  return {{"file", item.path.filename().string()},
          {"caption", io::is_there(caption) ? json(trim(io::read_text(caption))) : json()},
          {"is_left_out", item.is_left_out},
          {"is_clip", data::is_video(item.path)},
          {"height", file.height},
          {"width", file.width},
          {"bytes", file.bytes},
          {"problem", file.problem}};
}

json Datasets::items(const fs::path& dataset) {
  std::vector<std::pair<std::string, Item>> found;
  for (bool is_left_out : {false, true}) {
    const auto folder = is_left_out ? dataset / kLeftOut : dataset;
    for (const auto& name : item_names(folder)) found.emplace_back(name, Item{folder / name, is_left_out});
  }
  std::ranges::sort(found, {}, &std::pair<std::string, Item>::first);
  std::lock_guard lock(mutex_);
  auto all = json::array();
  for (const auto& [name, item] : found) all.push_back(describe(item));
  return all;
}

std::optional<Item> Datasets::find(const fs::path& dataset, const std::string& file) {
  if (!is_item(file)) return std::nullopt;
  for (bool is_left_out : {false, true}) {
    Item item{(is_left_out ? dataset / kLeftOut : dataset) / file, is_left_out};
    if (io::is_there(item.path)) return item;
  }
  return std::nullopt;
}

std::string Datasets::thumbnail(const Item& item, int64_t side) const {
  std::error_code error;
  const auto time = fs::last_write_time(item.path, error).time_since_epoch().count();
  const auto folder = workspace_.root() / ".thumbnails";
  const auto kept = folder / (io::sha256(fmt::format("{} {} {}", item.path.string(), time, side)).substr(0, 32) + ".webp");
  if (io::is_there(kept)) return io::read_text(kept);
  const auto pixels = data::decode_image(item.path);
  const auto height = pixels.size(0), width = pixels.size(1), longest = std::max({height, width, side});
  const data::Size smaller{std::max<int64_t>(1, height * side / longest), std::max<int64_t>(1, width * side / longest)};
  auto bytes = data::encode_webp(data::resize_and_crop(pixels, smaller), kQuality);
  fs::create_directories(folder, error);
  io::write_text_atomic(kept, bytes);
  return bytes;
}

void Datasets::write_caption(const Item& item, const std::string& caption) {
  std::error_code error;
  const auto text = trim(caption);
  if (text.empty()) fs::remove(item.caption_file(), error);
  else io::write_text_atomic(item.caption_file(), std::string(text) + "\n");
}

void Datasets::leave_out(const fs::path& dataset, const Item& item, bool out) {
  if (item.is_left_out == out) return;
  const auto folder = out ? dataset / kLeftOut : dataset;
  move(item.path, folder / item.path.filename());
  move(item.caption_file(), folder / item.caption_file().filename());
}

void Datasets::throw_away(const fs::path& dataset, const Item& item) const {
  const auto folder = workspace_.bin() / ("pictures of " + dataset.filename().string());
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  const auto ending = item.path.extension().string();
  const auto to = folder / free_name(folder, item.path.filename().string(), ending);
  move(item.caption_file(), Item{to}.caption_file());
  move(item.path, to);
}

bool Datasets::takes(const std::string& file) {
  return is_name(file) && (data::is_picture_name(file) || data::is_video(file) || fs::path(file).extension() == ".txt");
}

}  // namespace burnish::studio
