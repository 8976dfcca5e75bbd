#include "data/dataset.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <sstream>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/number.h"
#include "base/progress.h"
#include "base/random_key.h"
#include "base/text.h"
#include "data/archived_files.h"
#include "data/frame_files.h"
#include "data/image.h"
#include "data/load_metadata.h"
#include "data/spelling.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

double positive_weight(const nlohmann::json& caption) {
  auto weight = caption.find("weight");
  if (weight == caption.end()) return 1;
  auto number = weight->is_number() ? weight->get<double>() : 0;
  if (!(number > 0 && std::isfinite(number)))
    data_error("data", "the weight of a caption is {}, and must be a number above 0", weight->dump());
  return number;
}

/// A text, nothing, or a list of texts or of {text, weight}.
Captions captions_in(const nlohmann::json& value, const std::string& key) {
  if (value.is_null()) return {{""}};
  if (value.is_string()) return {{value.get<std::string>()}};
  Captions captions;
  for (const auto& item : value.is_array() ? value : nlohmann::json::array()) {
    auto text = item.is_object() ? item.value("text", nlohmann::json()) : item;
    if (!text.is_string()) data_error("data", "a caption in the list '{}' is no text, nor an object with text and weight", key);
    captions.push_back({text.get<std::string>(), item.is_object() ? positive_weight(item) : 1});
  }
  if (captions.empty()) data_error("data", "the {} is of type {}, not a text", key, value.type_name());
  return captions;
}

Captions read_captions(const nlohmann::json& row, const std::vector<std::string>& columns) {
  for (const char* key : {"prompt", "caption", "text"}) {
    auto it = row.find(key);
    if (it != row.end()) return captions_in(*it, key);
  }
  data_error("data", "no column named prompt (or caption, or text); there are: {}; class_tokens gives one caption to all", join(columns));
}

/// Each line as a caption of its own; those of one share its weight.
Captions by_line(const Captions& captions) {
  Captions lines;
  for (const auto& caption : captions) {
    auto parts = split_list(caption.text, '\n');
    if (parts.empty()) parts.emplace_back();
    for (const auto& part : parts) lines.push_back({part, caption.weight / static_cast<double>(parts.size())});
  }
  return lines;
}

/// Finds the files that rows of one dataset name.
class Files {
 public:
  explicit Files(const std::string& base_path) : base_(base_path) {}
  std::string find(const std::string& given) {
    if (auto path = spelled_.find(base_, given)) return path->string();
    data_error("data", "the file {} does not exist", (base_ / given).string());
  }

 private:
  fs::path base_;
  SpelledFiles spelled_;
};

std::string read_file(const nlohmann::json& row, const DatasetOptions& options) {
  // file_name is what datasets of the Hugging Face hub call it.
  for (const auto& key : split_list(options.data_file_keys + ",file_name")) {
    auto it = row.find(key);
    if (it == row.end() || contains(options.own_sized_pictures, key)) continue;
    if (it->is_array()) {
      data_error(
          "data",
          "the column '{}' names several files, as rows do for models that make layers; name one file, or such a model (for `burnish data` "
          "the --settings of its run)",
          key);
    }
    if (!it->is_string() || trim(it->get<std::string>()).empty()) data_error("data", "the column '{}' names no file", key);
    return it->get<std::string>();
  }
  data_error("data", "none of the columns {} is there", options.data_file_keys);
}

std::map<std::string, std::string> read_further(const nlohmann::json& row, const std::vector<std::string>& columns, Files& there) {
  std::map<std::string, std::string> files;
  for (const auto& column : columns) {
    auto it = row.find(column);
    if (it == row.end() || it->is_null()) continue;
    if (!it->is_string()) data_error("data", "the column '{}' holds no file name but a {}", column, it->type_name());
    if (auto given = it->get<std::string>(); !trim(given).empty()) files[column] = there.find(given);
  }
  return files;
}

/// A list of files as a cell of csv holds it: in JSON. A text that is none is one file.
nlohmann::json list_in(const std::string& text) {
  if (!trim(text).starts_with("[")) return text;
  auto is_flat = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= 1; };
  auto list = nlohmann::json::parse(text, is_flat, /*allow_exceptions=*/false);
  return list.is_array() ? list : nlohmann::json(text);
}

/// One file or a list of them, under the names that they have among further pictures.
std::map<std::string, std::string> read_own_sized(const nlohmann::json& row, const std::string& column, Files& there) {
  std::map<std::string, std::string> files;
  auto it = row.find(column);
  if (it == row.end() || it->is_null()) return files;
  auto cell = it->is_string() ? list_in(it->get<std::string>()) : *it;
  for (const auto& file : cell.is_array() ? cell : nlohmann::json::array({cell})) {
    if (!file.is_string())
      data_error("data", "the column '{}' must hold a file name or a list of them, and holds a {}", column, file.type_name());
    auto given = file.get<std::string>();
    if (trim(given).empty() && !cell.is_array()) continue;
    files[picture_name(column, files.size())] = there.find(given);
  }
  return files;
}

/// The cell of a row's picture, or where a column holds one layer of it that of the first; null where the row has neither.
const nlohmann::json* first_layer(const nlohmann::json& row, const std::string& key) {
  for (const auto& name : {key, key + "_0"}) {
    if (auto it = row.find(name); it != row.end()) return &*it;
  }
  return nullptr;
}

std::string file_in(const nlohmann::json& cell, const std::string& key) {
  if (!cell.is_string() || trim(cell.get<std::string>()).empty()) data_error("data", "the column '{}' names no file", key);
  return cell.get<std::string>();
}

/// The files of a row's layers as it names them, the whole first.
std::vector<std::string> read_layers(const nlohmann::json& row, const DatasetOptions& options) {
  for (const auto& key : split_list(options.data_file_keys + ",file_name")) {
    const auto* cell = first_layer(row, key);
    if (cell == nullptr || contains(options.own_sized_pictures, key)) continue;
    auto list = cell->is_string() ? list_in(cell->get<std::string>()) : *cell;
    std::vector<std::string> files;
    for (const auto& file : list.is_array() ? list : nlohmann::json::array({list})) files.push_back(file_in(file, key));
    auto next = [&] { return row.find(fmt::format("{}_{}", key, files.size())); };
    for (auto it = next(); it != row.end() && !it->is_null() && it->dump() != "\"\""; it = next()) files.push_back(file_in(*it, key));
    if (files.empty()) data_error("data", "the column '{}' names no file", key);
    return files;
  }
  data_error("data", "none of the columns {} is there", options.data_file_keys);
}

/// A row may say how many layers lie in the whole picture, as DiffSynth-Studio's do.
void check_layer_num(const nlohmann::json& row, int64_t num_files) {
  auto cell = row.find("layer_num");
  if (cell == row.end() || cell->is_null()) return;
  auto text = cell->is_string() ? std::string(trim(cell->get<std::string>())) : cell->dump();
  if (text.empty() || text == std::to_string(num_files - 1)) return;
  data_error("data", "the layer_num is {}, and the row names {} pictures: the whole and {} layers; name as many, or take layer_num out",
             text, num_files, num_files - 1);
}

/// A JSON number, or a csv cell that is one.
double read_loss_weight(const nlohmann::json& row) {
  auto it = row.find("loss_weight");
  if (it == row.end() || it->is_null()) return 1;
  auto text = it->is_string() ? std::string(trim(it->get<std::string>())) : it->dump();
  if (text.empty()) return 1;
  const auto weight = parse_number<double>(text);
  if (!weight || *weight < 0) data_error("data", "the loss_weight is {}, and must be a number of at least 0", text);
  return *weight;
}

/// A text that no encoder would read is a file of something else.
void check_lengths(const Captions& captions) {
  constexpr size_t kMostBytes = 1 << 20;
  for (const auto& caption : captions) {
    if (caption.text.size() > kMostBytes)
      data_error("data", "the caption has {}, and a caption has at most {}; see what its file or column holds",
                 human_bytes(static_cast<double>(caption.text.size())), human_bytes(kMostBytes));
  }
}

/// Puts the layers of a row, or all files of a folder that it names, among its pictures.
void put_layers(const nlohmann::json& row, const DatasetOptions& options, Files& there, Dataset::Entry& entry) {
  auto files = read_layers(row, options);
  entry.name = io::xxh64(fs::path(files.front()).string());
  for (auto& file : files) file = there.find(file);
  if (files.size() == 1 && io::is_folder(files.front())) {
    const auto in_folder = frame_files(files.front());
    if (in_folder.empty()) data_error("data", "the folder {} is to hold the layers of a picture, and holds no picture", files.front());
    files.assign(in_folder.begin(), in_folder.end());
  }
  check_layer_num(row, std::ssize(files));
  entry.file = files.front();
  for (size_t k = 1; k < files.size(); ++k) entry.further[layer_name(static_cast<int64_t>(k))] = files[k];
  entry.window = ClipWindow{.first = 0, .count = std::ssize(files), .rate = {1, 1}};
  for (const auto& column : options.further_pictures) entry.further.merge(read_own_sized(row, column, there));
}

void read_pictures(const nlohmann::json& row, const DatasetOptions& options, Files& there, Dataset::Entry& entry) {
  if (options.layers) return put_layers(row, options, there, entry);
  auto file = read_file(row, options);
  entry.name = io::xxh64(fs::path(file).string());
  entry.file = there.find(file);
  entry.further = read_further(row, options.further_pictures, there);
}

Dataset::Entry read_entry(const nlohmann::json& row, const Metadata& metadata, const DatasetOptions& options, const Subset& subset,
                          Files& there) {
  Dataset::Entry entry;
  for (const auto& column : options.extra_columns) {
    if (row.contains(column)) entry.extra[column] = row[column];
  }
  for (const auto& [column, path] : read_further(row, options.extra_files, there)) entry.extra[column] = fs::absolute(path).string();
  const auto& rule = subset.visits.captions;
  entry.captions = read_captions(row, metadata.columns);
  check_lengths(entry.captions);
  if (rule.wildcards) entry.captions = by_line(entry.captions);
  entry.prompt = with_trigger_word(subset.visits.trigger_word, plain_caption(rule, entry.captions));
  read_pictures(row, options, there, entry);
  for (const auto& column : options.own_sized_pictures) entry.further.merge(read_own_sized(row, column, there));
  entry.loss_weight = read_loss_weight(row) * subset.loss_weight;
  return entry;
}

/// That some row names a file and a caption at all; else one sentence says it of all rows.
void check_columns(const Metadata& metadata, const std::string& path, const std::string& data_file_keys, bool layers) {
  auto is_there = [&](const std::vector<std::string>& names) {
    return std::ranges::any_of(metadata.rows, [&](const nlohmann::json& row) {
      return std::ranges::any_of(names, [&](const auto& name) { return row.contains(name); });
    });
  };
  auto columns = join(metadata.columns);
  auto names = split_list(data_file_keys + ",file_name");
  for (size_t i = 0, num_names = names.size(); layers && i < num_names; ++i) names.push_back(names[i] + "_0");
  if (!is_there(names)) data_error("data", "{}: none of the columns {} is there; there are: {}", path, data_file_keys, columns);
  if (metadata.bad.size() < metadata.rows.size() && !is_there({"prompt", "caption", "text"}))
    data_error("data", "{}: no column named prompt (or caption, or text); there are: {}; class_tokens gives one caption to all", path,
               columns);
}

void check_same_size(const Dataset::Entry& entry, const std::string& column, const Size& size) {
  const auto& picture = entry.original_size;
  if (size == picture) return;
  data_error("data", "the {} {} is {} by {} pixels and the picture {} {} by {}; they are cut alike, so scale it to the picture's size",
             column, entry.further.at(column), size.width, size.height, entry.file, picture.width, picture.height);
}

/// What is cut out of a picture, which must still be of the size that it had when it was looked at.
at::Tensor cut(const at::Tensor& pixels_HWC, const Crop& crop, const Size& known, const std::string& file) {
  check_unchanged(file, known, {pixels_HWC.size(0), pixels_HWC.size(1)});
  return resize_and_crop(pixels_HWC, crop);
}

/// What is made of the frames of a clip, each cut alike, one of them in memory at a time: uint8 [F, H, W, C].
at::Tensor cut_each(const std::string& file, bool of_alpha, const ClipWindow& window, const Size& known, const Crop& crop,
                    const std::function<at::Tensor(const at::Tensor&)>& made_of) {
  at::Tensor frames_FHWC;
  for_frames_at(file, window.times(), of_alpha, [&](int64_t k, const at::Tensor& frame) {
    auto cut_HWC = cut(made_of(frame), crop, known, file);
    if (k == 0) frames_FHWC = at::empty({window.count, cut_HWC.size(0), cut_HWC.size(1), cut_HWC.size(2)}, cut_HWC.options());
    frames_FHWC[k].copy_(cut_HWC);
  });
  return frames_FHWC;
}

/// The frames of a clip, uint8 [F, H, W, 3]; a single one is a picture, [H, W, 3].
at::Tensor cut_frames(const std::string& file, const ClipWindow& window, const Size& known, const Crop& crop) {
  auto frames_FHW3 = cut_each(file, /*of_alpha=*/false, window, known, crop, [](const at::Tensor& frame) { return frame; });
  return window.count == 1 ? frames_FHW3[0] : frames_FHW3;
}

/// The layers of a picture, each cut alike, uint8 [F, H, W, 4]; a single one is a picture, [H, W, 4].
at::Tensor cut_layers(const std::vector<std::string>& files, const Size& known, const Crop& crop) {
  std::vector<at::Tensor> layers;
  for (const auto& file : files) layers.push_back(cut(decode_rgba(file), crop, known, file));
  return layers.size() == 1 ? layers[0] : at::stack(layers);
}

/// The files of a row's own layers.
std::vector<std::string> layers_of(const Dataset::Entry& entry) {
  std::vector<std::string> files{entry.file};
  for (int64_t k = 1; k < entry.window->count; ++k) files.push_back(entry.further.at(layer_name(k)));
  return files;
}

/// The files of layers in a column of further pictures.
std::vector<std::string> layers_in(const Dataset::Entry& entry, const std::string& column) {
  std::vector<std::string> files;
  auto next = [&] { return entry.further.find(picture_name(column, files.size())); };
  for (auto it = next(); it != entry.further.end(); it = next()) files.push_back(it->second);
  return files;
}

/// That the layers of a row, and those beside them, have its size, and that there are as many in each column.
void check_layers(const Dataset::Entry& entry, const DatasetOptions& options, const std::function<Size(const std::string& file)>& size_of) {
  const auto count = entry.window->count;
  for (int64_t k = 1; k < count; ++k) check_same_size(entry, layer_name(k), size_of(entry.further.at(layer_name(k))));
  for (const auto& column : options.further_pictures) {
    const auto files = layers_in(entry, column);
    for (size_t i = 0; i < files.size(); ++i) check_same_size(entry, picture_name(column, i), size_of(files[i]));
    const auto expected = column == options.mask.column ? 1 : count;
    if (!files.empty() && std::ssize(files) != expected)
      data_error("data", "the column '{}' names {} pictures, and {} were expected beside a picture of {} layers", column, files.size(),
                 expected, count);
  }
}

/// The frames of a mask that are shown at the times of a clip's, or how opaque those of the clip are, uint8 [F, H, W, 1].
at::Tensor cut_masks(const std::string& file, bool of_alpha, const ClipWindow& window, const Size& known, const Crop& crop) {
  return cut_each(file, of_alpha, window, known, crop, [&](const at::Tensor& frame) { return of_alpha ? frame : gray_of(frame); });
}

/// One for all subsets, named by where their metadata is.
fs::path checks_path(const DatasetOptions& options) {
  if (options.checks_folder.empty() || options.only_headers) return {};
  std::set<std::string> metadata;
  for (const auto& subset : options.subsets) metadata.insert(fs::absolute(subset.metadata_path).lexically_normal().string());
  auto name = io::xxh64(join(std::vector<std::string>(metadata.begin(), metadata.end()), "\n"));
  const auto* kind = reads_clips(options.subsets) ? "clips" : "pictures";
  return fs::path(options.checks_folder) / fmt::format("checked-{}-{:016x}.json", kind, name);
}

/// Decodes a file: its size, and of a clip its length behind that.
std::string look_at_file(const fs::path& file, bool as_clip, bool only_headers) {
  if (as_clip && may_be_clip(file)) {
    auto found = look_at_clip(file);
    if (found.num_frames > 1 || is_clip_alone(file))
      return fmt::format("{} {} {} {} {} {} {}", found.size.height, found.size.width, found.num_frames, found.duration.num,
                         found.duration.den, found.usual_frame.num, found.usual_frame.den);
  }
  if (only_headers) {
    const auto size = image_size(file);
    return fmt::format("{} {}", size.height, size.width);
  }
  auto pixels_HW3 = decode_image(file);
  return fmt::format("{} {}", pixels_HW3.size(0), pixels_HW3.size(1));
}

/// What was found in a file: its size in pixels, and of a clip its length; or why it cannot be decoded.
struct Looked {
  Size size;
  ClipLook clip = {.size = {}, .num_frames = 1, .duration = {}, .usual_frame = {}};
  std::string reason = {};

  /// Reads what look_at_file wrote; no size where it is something else.
  void read(const std::string& text) {
    std::istringstream from(text);
    from >> size.height >> size.width >> clip.num_frames >> clip.duration.num >> clip.duration.den;
    if (from.fail()) clip.num_frames = 1;
    from >> clip.usual_frame.num >> clip.usual_frame.den;
    clip.size = size;
  }
};

/// That a clip beside the row's, which `what` calls, has all frames that are taken of that.
void check_as_long(const Dataset::Entry& entry, const std::string& file, const std::string& what,
                   const std::map<std::string, Looked>& looked) {
  const auto &beside = looked.at(file).clip, &clip = looked.at(entry.file).clip;
  const auto& window = *entry.window;
  if ((beside.duration.num > 0) != (clip.duration.num > 0))
    data_error("data", "of the {} {} and the clip {} one is numbered frames and the other has times; give both in one way, or one picture",
               what, file, entry.file);
  const auto last = window.first + window.count - 1;
  bool is_there = beside.duration.num > 0 ? last * window.rate.den * beside.duration.den < beside.duration.num * window.rate.num
                                          : last < beside.num_frames;
  if (!is_there)
    data_error("data", "the {} {} is shorter than the clip {}; give one that is as long, or one picture for all frames", what, file,
               entry.file);
}

/// Whether what says which pixels of a row count is a clip, which then must be as long as the row's; a picture counts for all frames.
bool has_mask_clip(const Dataset::Entry& entry, const MaskSource& source, const std::map<std::string, Looked>& looked) {
  if (source.from == MaskSource::From::nothing || !entry.window) return false;
  if (source.from == MaskSource::From::alpha) return true;
  auto file = entry.further.find(source.column);
  if (file == entry.further.end()) return false;
  const bool is_clip = looked.at(file->second).clip.num_frames > 1;
  if (is_clip) check_as_long(entry, file->second, "mask", looked);
  return is_clip || is_clip_alone(file->second);
}

void check_further_clip(const Dataset::Entry& entry, const std::string& column, const std::map<std::string, Looked>& looked) {
  const auto& file = entry.further.at(column);
  if (looked.at(file).clip.num_frames == 1)
    data_error("data", "{} names the picture {}, and {} is a clip; give a clip that is as long", column, file, entry.file);
  check_as_long(entry, file, column, looked);
}

/// Every file once, however many rows name it.
std::map<std::string, Looked> look_at_files(const std::vector<Dataset::Entry>& entries, FileNotes& checks, const DatasetOptions& options) {
  std::map<std::string, Looked> looked;
  for (const auto& entry : entries) {
    if (!entry.file.empty()) looked[entry.file];
    for (const auto& [column, file] : entry.further) looked[file];
  }
  Progress progress("check pictures", std::ssize(looked));
  constexpr size_t kAtOnce = 64;
  std::mutex mutex;
  std::vector<fs::path> files;
  for (auto it = looked.begin(); it != looked.end();) {
    if (interrupted()) throw Error(Exit::interrupted, "data", "interrupted while checking the pictures; nothing was trained yet");
    for (files.clear(); it != looked.end() && files.size() < kAtOnce; ++it) files.emplace_back(it->first);
    auto notes = checks.get(files, [&](const fs::path& file) -> std::string {
      try {
        return look_at_file(file, reads_clips(options.subsets), options.only_headers);
      } catch (const Error& error) {
        std::lock_guard lock(mutex);
        looked.at(file.string()).reason = without_source(error);
        return "";
      }
    });
    for (size_t i = 0; i < files.size(); ++i) {
      auto& found = looked.at(files[i].string());
      found.read(notes[i]);
      if (found.reason.empty() && (found.size.height < 1 || found.size.width < 1))
        found.reason = fmt::format("what is remembered of {} is damaged; remove {}", files[i].string(), checks_path(options).string());
    }
    progress.update(std::distance(looked.begin(), it));
  }
  return looked;
}

/// The rows of a dataset, and what is known of them while it is opened.
struct Rows {
  std::vector<Dataset::Entry> entries = {};
  std::vector<int64_t> first = {};  ///< first row of each subset
  std::map<int64_t, std::string> bad = {};
};

/// Says once which clips are slower than their rule asks, whose frames are taken one by one.
class Slower {
 public:
  void note(const std::string& file, const ClipRule& rule, const ClipLook& clip) {
    if (!is_slower(rule, clip)) return;
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
  static double number_of(const Fraction& fraction) { return static_cast<double>(fraction.num) / static_cast<double>(fraction.den); }

  std::set<std::string> files_;
  std::string what_;  ///< of the first
};

/// Puts a row for each window in the place of a clip's row.
Rows with_windows(Rows given, const std::vector<Subset>& subsets, const std::map<std::string, Looked>& looked) {
  Rows rows;
  Slower slower;
  auto begin_subsets = [&](int64_t row) {
    while (rows.first.size() < given.first.size() && given.first[rows.first.size()] <= row) rows.first.push_back(std::ssize(rows.entries));
  };
  for (int64_t row = 0; row < std::ssize(given.entries); ++row) {
    begin_subsets(row);
    auto& entry = given.entries[static_cast<size_t>(row)];
    const auto next = std::ssize(rows.entries);
    if (auto known = given.bad.find(row); known != given.bad.end()) {
      rows.bad[next] = known->second;
    } else if (const auto& found = looked.at(entry.file);
               found.reason.empty() && (found.clip.num_frames > 1 || is_clip_alone(entry.file))) {
      try {
        for (const auto& window : windows_of(subsets[entry.subset].clips, found.clip, entry.file)) {
          rows.entries.push_back(entry);
          rows.entries.back().window = window;
        }
        slower.note(entry.file, subsets[entry.subset].clips, found.clip);
        continue;
      } catch (const Error& error) {
        rows.bad[next] = without_source(error);
      }
    }
    rows.entries.push_back(std::move(entry));
  }
  begin_subsets(std::ssize(given.entries));
  slower.warn_of();
  return rows;
}

/// Sizes of an entry's pictures in a column, each large enough for the rule where there is one.
std::vector<Size> look_at_own_sized(const Dataset::Entry& entry, const std::string& column, const SizeRule* rule,
                                    const std::function<Size(const std::string& file)>& size_of_file) {
  std::vector<Size> sizes;
  auto next = [&] { return entry.further.find(picture_name(column, sizes.size())); };
  for (auto file = next(); file != entry.further.end(); file = next()) {
    sizes.push_back(size_of_file(file->second));
    if (rule) target_size(*rule, sizes.back(), file->second);
  }
  return sizes;
}

}  // namespace

bool reads_clips(const std::vector<Subset>& subsets) {
  return std::ranges::any_of(subsets, [](const auto& subset) { return subset.clips.step > 0; });
}

std::string picture_name(const std::string& column, size_t number) {
  return number == 0 ? column : fmt::format("{} {}", column, number + 1);
}

std::string layer_name(int64_t k) { return fmt::format("layer {}", k); }

std::string metadata_hash(const Metadata& metadata) {
  io::Sha256 hash;
  // A value that is not UTF-8 must not stop this.
  for (const auto& row : metadata.rows) hash.update(row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return hash.hex();
}

Dataset::Dataset(const DatasetOptions& options) : options_(options), checks_(checks_path(options)) {
  if (const auto& column = options_.mask.column; !column.empty() && !contains(options_.further_pictures, column))
    options_.further_pictures.push_back(column);
  for (const auto& subset : options_.subsets) {
    check_rule(subset.size);
    check_rule(subset.clips);
  }
  for (size_t i = 0; i < options_.subsets.size(); ++i) read(i);
  check_pictures();
  check_enough_good();
}

/// Bad rows are only good for it where they may be skipped, and others are left of each subset.
void Dataset::check_enough_good() const {
  if (bad_.empty()) return;
  const auto& [row, reason] = *bad_.begin();
  if (!options_.skip_bad_samples) {
    data_error("data", "{}: {} of {} samples cannot be used; the first is {}: {} (--on_bad_sample skip leaves them out)",
               options_.subsets[entry(row).subset].metadata_path, bad_.size(), entries_.size(), name_of(row), reason);
  }
  for (size_t i = 0; i < options_.subsets.size(); ++i) {
    auto first = first_rows_[i], end = i + 1 < first_rows_.size() ? first_rows_[i + 1] : std::ssize(entries_);
    auto good = std::ranges::lower_bound(rows_, first);
    if (good != rows_.end() && *good < end) continue;
    data_error("data", "{}: none of the {} samples can be used; the first is {}: {}", options_.subsets[i].metadata_path, end - first,
               name_of(first), bad_.at(first));
  }
}

int64_t Dataset::num_variants() const {
  int64_t most = 1;
  for (const auto& subset : options_.subsets) most = std::max(most, subset.augmentation.num_variants);
  return most;
}

std::string Dataset::name_of(int64_t row) const {
  auto behind = std::ranges::upper_bound(first_rows_, row);
  if (behind == first_rows_.begin() || row >= std::ssize(entries_)) return fmt::format("row {}", row);
  auto index = static_cast<size_t>(behind - first_rows_.begin()) - 1;
  const auto& subset = options_.subsets[index];
  auto name = fmt::format("row {}", row - first_rows_[index]);
  auto same_kind = [&](const Subset& other) { return other.visits.of_class_set == subset.visits.of_class_set; };
  if (std::ranges::count_if(options_.subsets, same_kind) > 1) return name + " of " + subset.metadata_path;
  return subset.visits.of_class_set ? name + " of the class set" : name;
}

void Dataset::read(size_t index) {
  const auto& subset = options_.subsets[index];
  auto metadata = load_metadata(subset.metadata_path, subset.caption_files);
  check_columns(metadata, subset.metadata_path, options_.data_file_keys, options_.layers);
  first_rows_.push_back(std::ssize(entries_));
  Files there(subset.base_path);
  for (size_t i = 0; i < metadata.rows.size(); ++i) {
    entries_.emplace_back();
    try {
      if (auto bad = metadata.bad.find(i); bad != metadata.bad.end()) throw Error(Exit::data, "data", bad->second);
      entries_.back() = read_entry(metadata.rows[i], metadata, options_, subset, there);
    } catch (const Error& error) {
      bad_[std::ssize(entries_) - 1] = without_source(error);
    }
    entries_.back().subset = index;
  }
  origins_.push_back({subset.metadata_path, data::metadata_hash(metadata), subset.caption_files});
}

void Dataset::check_pictures() {
  const auto looked = look_at_files(entries_, checks_, options_);
  if (reads_clips(options_.subsets)) {
    auto rows = with_windows({std::move(entries_), std::move(first_rows_), std::move(bad_)}, options_.subsets, looked);
    entries_ = std::move(rows.entries);
    first_rows_ = std::move(rows.first);
    bad_ = std::move(rows.bad);
  }
  auto whole = [&](const std::string& file) {
    const auto& found = looked.at(file);
    if (!found.reason.empty()) throw Error(Exit::data, "data", found.reason);
    return found.size;
  };
  for (int64_t row = 0; row < std::ssize(entries_); ++row) {
    if (bad_.contains(row)) continue;
    auto& entry = entries_[static_cast<size_t>(row)];
    try {
      entry.original_size = whole(entry.file);
      if (options_.layers) check_layers(entry, options_, whole);
      for (const auto& [column, file] : entry.further) {
        if (options_.layers || !contains(options_.further_pictures, column)) continue;
        if (options_.squares.contains(column)) entry.picture_sizes[column] = {whole(file)};
        else check_same_size(entry, column, whole(file));
        if (entry.window && column != options_.mask.column) check_further_clip(entry, column, looked);
      }
      entry.has_mask_clip = has_mask_clip(entry, options_.mask, looked);
      const auto& rule = options_.subsets[entry.subset].size;
      for (const auto& column : options_.own_sized_pictures)
        entry.picture_sizes[column] = look_at_own_sized(entry, column, options_.whole_pictures.contains(column) ? nullptr : &rule, whole);
      sizes_[row] = target_size(rule, entry.original_size, entry.file);
      rows_.push_back(row);
    } catch (const Error& error) {
      bad_[row] = without_source(error);
    }
  }
}

Crop Dataset::crop(int64_t row, int64_t variant) const {
  const auto& how = options_.subsets[entry(row).subset].augmentation;
  auto picture = entry(row).original_size, size = sizes_.at(row);
  auto crop = centre_crop(picture, size);
  auto name = entry(row).name;
  CounterRandom random(RandomKey{0, static_cast<uint64_t>(variant) + 1, name, Purpose::augmentation}.value());
  if (how.random_crop) {
    auto scaled = covering_size(picture, size);
    crop.top = static_cast<int64_t>(random.below(static_cast<uint64_t>(scaled.height - size.height + 1)));
    crop.left = static_cast<int64_t>(random.below(static_cast<uint64_t>(scaled.width - size.width + 1)));
  }
  CounterRandom coin(RandomKey{0, 0, name, Purpose::augmentation}.value());
  crop.flip = how.fixed_flip || (how.random_flip && (static_cast<uint64_t>(variant) + coin.below(2)) % 2 == 1);
  crop.alteration = alteration_of(how, name, variant);
  return crop;
}

bool Dataset::is_centre(int64_t row, const Crop& crop) const {
  auto centre = centre_crop(entry(row).original_size, crop.size);
  return crop.top == centre.top && crop.left == centre.left;
}

void Dataset::check_usable(int64_t row) const {
  if (sizes_.contains(row)) return;
  auto bad = bad_.find(row);
  data_error("data", "{} cannot be used: {}", name_of(row), bad == bad_.end() ? "there is no such row" : bad->second);
}

Sample Dataset::load(int64_t row, int64_t variant) const {
  check_usable(row);
  const auto& from = entry(row);
  auto crop = this->crop(row, variant);
  if (options_.layers) return {row, from.prompt, from.file, cut_layers(layers_of(from), from.original_size, crop)};
  auto pixels =
      from.window ? cut_frames(from.file, *from.window, from.original_size, crop) : decode_and_crop(from.file, from.original_size, crop);
  return {row, from.prompt, from.file, pixels};
}

at::Tensor Dataset::load_further(int64_t row, const std::string& column, int64_t variant) const {
  check_usable(row);
  const auto& from = entry(row);
  auto file = from.further.find(column);
  if (file == from.further.end()) data_error("data", "{} names no picture in the column '{}'", name_of(row), column);
  auto crop = this->crop(row, variant);
  auto size = from.original_size;
  if (options_.layers) return cut_layers(layers_in(from, column), size, crop);
  if (auto square = options_.squares.find(column); square != options_.squares.end()) {
    size = from.picture_sizes.at(column)[0];
    const bool flip = crop.flip;
    crop = centre_crop(size, {square->second, square->second});
    crop.flip = flip;
  }
  return from.window ? cut_frames(file->second, *from.window, size, crop) : decode_and_crop(file->second, size, crop);
}

std::vector<Crop> Dataset::picture_crops(int64_t row, const std::string& column, int64_t variant) const {
  const auto& from = entry(row);
  auto flip = crop(row, variant).flip;
  std::vector<Crop> crops;
  for (const auto& size : from.picture_sizes.at(column)) {
    const auto& rule = options_.subsets[from.subset].size;
    crops.push_back(centre_crop(size, options_.whole_pictures.contains(column) ? size : target_size(rule, size, from.file)));
    crops.back().flip = flip;
  }
  return crops;
}

std::vector<at::Tensor> Dataset::load_pictures(int64_t row, const std::string& column, int64_t variant) const {
  check_usable(row);
  const auto& from = entry(row);
  auto crops = picture_crops(row, column, variant);
  std::vector<at::Tensor> pictures;
  for (size_t i = 0; i < crops.size(); ++i) {
    const auto& file = from.further.at(picture_name(column, i));
    const auto& size = from.picture_sizes.at(column)[i];
    pictures.push_back(options_.layers ? cut_layers({file}, size, crops[i]) : decode_and_crop(file, size, crops[i]));
  }
  return pictures;
}

at::Tensor Dataset::load_mask(int64_t row, int64_t variant) const {
  check_usable(row);
  const auto& from = entry(row);
  const auto source = options_.mask.from;
  const bool of_alpha = source == MaskSource::From::alpha;
  auto mask = from.further.find(options_.mask.column);
  if (source == MaskSource::From::nothing || (!of_alpha && mask == from.further.end())) return {};
  const auto& file = of_alpha ? from.file : mask->second;
  const auto crop = this->crop(row, variant);
  if (options_.layers && of_alpha) {
    auto layers = cut_layers(layers_of(from), from.original_size, crop);
    return layers.narrow(-1, 3, 1).contiguous();
  }
  if (from.has_mask_clip) return cut_masks(file, of_alpha, *from.window, from.original_size, crop);
  return cut(of_alpha ? decode_alpha(file) : decode_gray(file), crop, from.original_size, file);
}

}  // namespace burnish::data
