#include "studio/datasets.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "data/animation.h"
#include "data/clip.h"
#include "data/folder_contents.h"
#include "data/frame_files.h"
#include "data/image.h"
#include "io/files.h"
#include "studio/bin.h"
#include "studio/masks.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kLeftOut = ".excluded";
constexpr int64_t kMostListed = 400'000;  // files and folders of a dataset, so that a link to half a disk does not hold up the page
constexpr int kNumShown = 4;              // pictures that stand for a dataset

bool is_item(const std::string& name) { return is_name(name) && (data::is_picture_name(name) || data::is_video(name)); }

/// Tells whether a picture's name says that it lies beside another one of this folder: its mask, or what OneTrainer steers it with.
bool is_beside(const std::string& stem, const std::set<std::string>& stems) {
  auto goes_on = [&](std::string_view ending) {
    return stem.ends_with(ending) && stems.contains(stem.substr(0, stem.size() - ending.size()));
  };
  return std::ranges::any_of(data::kMaskNames, goes_on) || goes_on(data::kConditionName);
}

/// A number that changes when the file does.
int64_t version_of(const fs::path& file) {
  std::error_code error;
  return std::chrono::duration_cast<std::chrono::milliseconds>(fs::last_write_time(file, error).time_since_epoch()).count();
}

/// The names of an item and of what lies beside it in another folder, where the item's stem is `stem`.
std::vector<Move> moves_of(const Item& item, const fs::path& folder, const std::string& stem) {
  auto files = item.companions();
  files.push_back(item.path);
  const auto own = item.path.stem().string().size();
  std::vector<Move> moves;
  for (const auto& path : files) moves.push_back({path, folder / (stem + path.filename().string().substr(own))});
  return moves;
}

}  // namespace

fs::path Item::caption_file() const { return fs::path(path).replace_extension(".txt"); }

std::vector<fs::path> Item::companions() const {
  std::vector<fs::path> there;
  for (const char* ending : {".txt", ".json"}) {
    if (auto file = fs::path(path).replace_extension(ending); io::is_there(file)) there.push_back(std::move(file));
  }
  if (auto mask = mask_of(path)) there.push_back(*mask);
  return there;
}

/// Adds what lies in a folder of `root`, named from there on ("more/"), and in those below it. Links to folders are not followed, and a
/// folder that has a caption is a clip of frames.
void Datasets::list_folder(const fs::path& root, const std::string& below, bool is_left_out, std::vector<Listed>& all, int64_t& num_looks) {
  const auto folder = root / below;
  std::set<std::string> names, stems, folders;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end && num_looks-- > 0; entry.increment(error)) {
    std::error_code gone;
    auto name = entry->path().filename().string();
    if (!is_name(name)) continue;
    if (entry->is_directory(gone) && !entry->is_symlink(gone)) folders.insert(name);
    if (!entry->is_regular_file(gone)) continue;
    if (is_item(name)) stems.insert(entry->path().stem().string());
    names.insert(std::move(name));
  }
  std::map<std::string, fs::path> masks;
  for (const auto& name : names) {
    const auto stem = fs::path(name).stem().string();
    for (auto ending : data::kMaskNames) {
      if (is_item(name) && stem.ends_with(ending)) masks[stem.substr(0, stem.size() - ending.size())] = folder / name;
    }
  }
  for (const auto& name : names) {
    const auto stem = fs::path(name).stem().string();
    if (!is_item(name) || is_beside(stem, stems)) continue;
    const auto mask = masks.find(stem);
    all.push_back(
        {{below + name, folder / name, is_left_out}, names.contains(stem + ".txt"), mask == masks.end() ? fs::path() : mask->second});
  }
  for (const auto& name : folders) {
    if (!names.contains(name + ".txt")) list_folder(root, below + name + "/", is_left_out, all, num_looks);
  }
}

std::vector<Datasets::Listed> Datasets::listed(const fs::path& dataset, bool is_left_out) {
  std::vector<Listed> all;
  int64_t num_looks = kMostListed;
  list_folder(is_left_out ? dataset / kLeftOut : dataset, "", is_left_out, all, num_looks);
  return all;
}

std::vector<Datasets::Listed> Datasets::listed(const fs::path& dataset) {
  auto all = listed(dataset, /*is_left_out=*/false), left_out = listed(dataset, /*is_left_out=*/true);
  std::ranges::move(left_out, std::back_inserter(all));
  std::ranges::sort(all, {}, [](const Listed& one) { return one.item.name; });
  return all;
}

json Datasets::list() const {
  auto all = json::array();
  for (const auto& name : Workspace::names(workspace_.datasets(), /*with_dangling=*/true)) {
    const auto folder = workspace_.datasets() / name;
    const auto items = listed(folder, /*is_left_out=*/false);
    const auto table = CaptionTable::of(folder);
    auto has_caption = [&](const Listed& one) { return table ? caption_of(one, table).has_value() : one.has_caption; };
    auto first = json::array();  // what a tile of it shows
    for (const auto& one : items | std::views::take(kNumShown)) first.push_back(one.item.name);
    std::error_code is_no_link;
    const auto linked = fs::read_symlink(folder, is_no_link);
    all.push_back({{"name", name},
                   {"items", items.size()},
                   {"first", first},
                   {"captions", std::ranges::count_if(items, has_caption)},
                   {"folder", linked.empty() ? json() : json(linked.string())}});
    if (!io::is_folder(folder)) all.back()["problem"] = "the folder that this is a link to is gone";
  }
  return all;
}

const Datasets::SeenPicture& Datasets::known(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  const auto bytes = fs::file_size(file, error);
  auto& known = known_[file.string()];
  if (known.time == time && known.bytes == bytes && bytes > 0) return known;
  known = {.time = time, .bytes = bytes, .is_clip = data::is_video(file)};
  try {
    if (known.is_clip) return known;  // read when it is shown
    known.is_clip = data::may_be_clip(file) && data::is_animation(io::read_text(file));
    const auto size = data::image_size(file);
    known.height = size.height;
    known.width = size.width;
  } catch (const Error& wrong) {
    known.problem = without_source(wrong);
  }
  return known;
}

std::optional<std::string> Datasets::caption_of(const Listed& listed, const std::optional<CaptionTable>& table) {
  auto caption = table ? table->caption(listed.item.name) : std::nullopt;
  if (!caption && !table && listed.has_caption) caption = io::read_text(listed.item.caption_file());
  return caption && !trim(*caption).empty() ? std::optional(std::string(trim(*caption))) : std::nullopt;
}

json Datasets::describe(const Listed& listed, const std::optional<CaptionTable>& table) {
  const auto& item = listed.item;
  const auto& file = known(item.path);
  const auto caption = caption_of(listed, table);
  return {{"file", item.name},
          {"caption", caption ? json(*caption) : json()},
          {"mask", listed.mask.empty() ? json() : json(version_of(listed.mask))},
          {"is_left_out", item.is_left_out},
          {"is_clip", file.is_clip},
          {"height", file.height},
          {"width", file.width},
          {"bytes", file.bytes},
          {"problem", file.problem}};
}

json Datasets::items(const fs::path& dataset) {
  const auto found = listed(dataset);
  std::lock_guard lock(mutex_);
  auto all = json::array();
  const auto table = CaptionTable::of(dataset);
  for (const auto& one : found) all.push_back(describe(one, table));
  return all;
}

std::vector<Item> Datasets::files(const fs::path& dataset) {
  std::vector<Item> all;
  for (auto& one : listed(dataset)) all.push_back(std::move(one.item));
  return all;
}

std::optional<Item> Datasets::find(const fs::path& dataset, const std::string& file) {
  if (!is_item(fs::path(file).filename().string())) return std::nullopt;
  for (bool is_left_out : {false, true}) {
    auto path = is_left_out ? dataset / kLeftOut : dataset;
    bool is_own = true;
    for (const auto& part : split_list(file, '/')) {
      std::error_code gone;
      path /= part;
      is_own = is_own && is_name(part) && !(fs::is_symlink(path, gone) && io::is_folder(path));
    }
    if (is_own && io::is_there(path)) return Item{file, path, is_left_out};
  }
  return std::nullopt;
}

void Datasets::write_caption(const Item& item, const std::string& caption) {
  std::error_code error;
  const auto text = trim(caption);
  if (text.empty()) fs::remove(item.caption_file(), error);
  else io::write_text_atomic(item.caption_file(), std::string(text) + "\n");
}

bool Datasets::leave_out(const fs::path& dataset, const Item& item, bool out) {
  if (item.is_left_out == out) return true;
  const auto to = (out ? dataset / kLeftOut : dataset) / item.name;
  make_folder(to.parent_path());
  return move_all(moves_of(item, to.parent_path(), to.stem().string()));
}

std::string Datasets::throw_away(const fs::path& dataset, const Item& item) const {
  const auto folder = workspace_.bin() / ("pictures of " + dataset.filename().string());
  const auto stem = item.path.stem().string();
  for (int number = 1;; ++number) {
    const auto name = number == 1 ? stem : fmt::format("{}-{}", stem, number);
    if (const auto id = move_to_bin(workspace_, moves_of(item, folder, name))) return *id;
  }
}

bool Datasets::takes(const std::string& file) {
  return is_name(file) && (data::is_picture_name(file) || data::is_video(file) || fs::path(file).extension() == ".txt");
}

double changed_at(const fs::path& data) {
  auto latest = seconds_since_1970(data);
  std::error_code error;
  int64_t num_looks = kMostListed;
  for (fs::recursive_directory_iterator entry(data, error), end; entry != end && num_looks-- > 0; entry.increment(error)) {
    if (!is_name(entry->path().filename().string())) entry.disable_recursion_pending();
    else latest = std::max(latest, seconds_since_1970(entry->path()));
  }
  return latest;
}

}  // namespace burnish::studio
