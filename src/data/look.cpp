#include "data/look.h"

#include <fmt/core.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/looked_files.h"
#include "data/window_beside.h"

namespace burnish::data {

namespace {

/// Says once which clips are slower than their rule asks, whose frames are taken one by one, unless the model reads of each how fast it is.
class Slower {
 public:
  explicit Slower(const Column& target) : is_read_(target.frames.rate_use == Column::RateUse::read) {}

  void note(const std::string& file, const ClipRule& rule, const ClipLook& clip) {
    if (is_read_ || !is_slower(rule, clip)) return;
    if (files_.empty())
      what_ = fmt::format("{} has {} frames in {:.4g} s, and the model {:.4g} a second", file, clip.num_frames, number_of(clip.duration),
                          number_of(rule.rate));
    files_.insert(file);
  }
  void warn_of() const {
    if (!files_.empty())
      warn(
          "{} clips are slower than those of the model ({}): their frames are taken one by one, and move faster when they are drawn; "
          "--frame_rate asks for another rate",
          files_.size(), what_);
  }

 private:
  bool is_read_;
  std::set<std::string> files_;
  std::string what_;  ///< of the first
};

/// Puts a row for each window in the place of a clip's row.
Rows with_windows(Rows given, const DatasetOptions& options, const LookedFiles& looked) {
  Rows all{.origins = std::move(given.origins)};
  Slower slower(target_of(options.columns));
  auto begin_subsets = [&](int64_t row) {
    while (all.first.size() < given.first.size() && given.first[all.first.size()] <= row) all.first.push_back(std::ssize(all.rows));
  };
  for (int64_t number = 0; number < std::ssize(given.rows); ++number) {
    begin_subsets(number);
    auto& row = given.rows[static_cast<size_t>(number)];
    const auto next = std::ssize(all.rows);
    if (auto known = given.bad.find(number); known != given.bad.end()) {
      all.bad[next] = known->second;
    } else if (const auto& found = looked.at(row.file); found.reason.empty() && (found.clip.num_frames > 1 || is_clip_alone(row.file))) {
      try {
        const auto rule = rule_of(row, options);
        for (const auto& window : windows_of(rule, found.clip, row.file)) {
          all.rows.push_back(row);
          all.rows.back().window = window;
        }
        slower.note(row.file, rule, found.clip);
        continue;
      } catch (const Error& error) {
        all.bad[next] = without_source(error);
      }
    }
    all.rows.push_back(std::move(row));
  }
  begin_subsets(std::ssize(given.rows));
  slower.warn_of();
  return all;
}

/// Checks that a clip beside the row's, which `what` calls, has all frames that are taken of that.
void check_as_long(const Row& row, const std::string& file, const std::string& what, const LookedFiles& looked, const ClipRule& rule) {
  const auto &beside = looked.at(file).clip, &clip = looked.at(row.file).clip;
  const auto window = window_beside(*row.window, rule, clip.duration.num > 0, beside.duration.num > 0);
  const auto last = window.first + window.count - 1;
  bool is_there = beside.duration.num > 0 ? last * window.rate.den * beside.duration.den < beside.duration.num * window.rate.num
                                          : last < beside.num_frames;
  if (!is_there)
    data_error("data", "the {} {} is shorter than the clip {}; give one that is as long, or one picture for all frames", what, file,
               row.file);
}

/// Notes the masks that are one picture for all frames of a row; one that is a clip must be as long as the row's.
std::set<std::string> still_masks(const Row& row, const DatasetOptions& options, const LookedFiles& looked) {
  std::set<std::string> stills;
  for (const auto& column : options.columns) {
    const auto file = row.further.find(column.name);
    if (!row.window || column.is != Column::Is::mask || file == row.further.end()) continue;
    if (looked.at(file->second).clip.num_frames > 1) check_as_long(row, file->second, "mask", looked, rule_of(row, options));
    else if (!is_clip_alone(file->second)) stills.insert(column.name);
  }
  return stills;
}

void check_further_clip(const Row& row, const std::string& column, const LookedFiles& looked, const ClipRule& rule) {
  const auto& file = row.further.at(column);
  if (looked.at(file).clip.num_frames == 1)
    data_error("data", "{} names the picture {}, and {} is a clip; give a clip that is as long", column, file, row.file);
  check_as_long(row, file, column, looked, rule);
}

using SizeOf = std::function<Size(const std::string& file)>;  ///< throws a data Error for a file that cannot be used

void check_same_size(const Row& row, const Size& picture, const std::string& name, const Size& size) {
  if (size == picture) return;
  data_error("data", "the {} {} is {} by {} pixels and the picture {} {} by {}; they are cut alike, so scale it to the picture's size",
             name, row.further.at(name), size.width, size.height, row.file, picture.width, picture.height);
}

/// Checks that the layers of a row, and those beside them, have its size, and that there are as many in each column.
void check_layers(const Row& row, const Size& picture, const DatasetOptions& options, const SizeOf& size_of) {
  const auto count = row.window->count;
  for (int64_t k = 1; k < count; ++k) check_same_size(row, picture, layer_name(k), size_of(row.further.at(layer_name(k))));
  for (const auto& column : options.columns) {
    if (!is_beside(column)) continue;
    const auto files = files_in(row, column.name);
    for (size_t i = 0; i < files.size(); ++i) check_same_size(row, picture, picture_name(column.name, i), size_of(files[i]));
    const auto expected = column.is == Column::Is::mask ? 1 : count;
    if (!files.empty() && std::ssize(files) != expected)
      data_error("data", "the column '{}' names {} pictures, and {} were expected beside a picture of {} layers", column.name, files.size(),
                 expected, count);
  }
}

/// Checks that what is cut as a row's target has its size, and its frames, and notes the sizes of what is cut to a square.
void look_beside(const Row& row, const DatasetOptions& options, const SizeOf& size_of, const LookedFiles& files, Looked& looked) {
  for (const auto& column : options.columns) {
    if (!is_beside(column)) continue;
    const auto of_column = files_in(row, column.name);
    for (size_t i = 0; i < of_column.size(); ++i) {
      const auto name = picture_name(column.name, i);
      if (column.fit == Column::Fit::square) looked.sizes[name] = {size_of(of_column[i])};
      else check_same_size(row, looked.picture, name, size_of(of_column[i]));
      if (row.window && column.is != Column::Is::mask) check_further_clip(row, name, files, rule_of(row, options));
    }
  }
}

/// Sizes of a row's pictures in a column, each large enough for the rule unless they stay whole.
std::vector<Size> sizes_in(const Row& row, const Column& column, const SizeRule& rule, const SizeOf& size_of) {
  std::vector<Size> sizes;
  for (const auto& file : files_in(row, column.name)) {
    sizes.push_back(size_of(file));
    if (column.fit != Column::Fit::whole) target_size(rule, sizes.back(), file);
  }
  return sizes;
}

/// A row's references; clips among them are as long as the row at most.
std::vector<FoundReference> references_in(const Row& row, const Column& column, const ClipRule& rule, const LookAt& look_at) {
  std::vector<FoundReference> found;
  auto as_row = rule;
  as_row.num_frames = row.window ? row.window->count : 1;
  for (const auto& reference : references_of(row, column.name)) found.push_back(find_reference(column, reference, as_row, look_at));
  return found;
}

Looked look_at_row(const Row& row, const DatasetOptions& options, const LookedFiles& files) {
  auto size_of = [&](const std::string& file) {
    const auto& found = files.at(file);
    if (!found.reason.empty()) throw Error(Exit::data, "data", found.reason);
    return found.size;
  };
  auto look_at = [&](const std::string& file) {
    auto look = files.at(file).clip;
    look.size = size_of(file);
    return look;
  };
  Looked looked{.picture = size_of(row.file)};
  if (target_of(options.columns).is == Column::Is::layers) check_layers(row, looked.picture, options, size_of);
  else look_beside(row, options, size_of, files, looked);
  looked.stills = still_masks(row, options, files);
  const auto& rule = options.subsets[row.subset].size;
  for (const auto& column : options.columns) {
    if (column.is == Column::Is::pictures) looked.sizes[column.name] = sizes_in(row, column, rule, size_of);
    if (column.is == Column::Is::references) looked.references = references_in(row, column, rule_of(row, options), look_at);
  }
  looked.size = target_size(rule, looked.picture, row.file);
  return looked;
}

}  // namespace

std::map<int64_t, Looked> look(Rows& rows, const DatasetOptions& options, FileNotes& notes) {
  const auto files = look_at_files(rows.rows, notes, options);
  if (reads_clips(options.subsets)) rows = with_windows(std::move(rows), options, files);
  std::map<int64_t, Looked> looked;
  for (int64_t number = 0; number < std::ssize(rows.rows); ++number) {
    if (rows.bad.contains(number)) continue;
    try {
      looked[number] = look_at_row(rows.rows[static_cast<size_t>(number)], options, files);
    } catch (const Error& error) {
      rows.bad[number] = without_source(error);
    }
  }
  return looked;
}

}  // namespace burnish::data
