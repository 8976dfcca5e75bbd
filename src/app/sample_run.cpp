#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "app/sample_options.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"
#include "drawing/picture.h"
#include "io/files.h"
#include "train/options/fields.h"
#include "train/options/meaning.h"

namespace burnish::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEnding = ".safetensors";

/// "step-12" and "text_encoder" of step-12.text_encoder.safetensors; the part is "" in a file's name without one.
std::pair<std::string, std::string> stem_and_part(const std::string& file) {
  if (!file.ends_with(kEnding)) return {};
  auto name = file.substr(0, file.size() - std::string(kEnding).size());
  auto dot = name.find('.');
  return {name.substr(0, dot), dot == name.npos ? "" : name.substr(dot + 1)};
}

/// How new what a run saved is: by its step; the best weights are taken ahead of the last. -1 for other names.
int64_t newness(const std::string& stem) {
  if (stem == "best") return INT64_MAX;
  if (!stem.starts_with("step-")) return -1;
  int64_t step = -1;
  auto [end, error] = std::from_chars(stem.data() + 5, stem.data() + stem.size(), step);
  return error == std::errc() && end == stem.data() + stem.size() ? step : -1;
}

/// The files of the save that is drawn with: the part each holds, and where it is.
std::vector<std::pair<std::string, fs::path>> saved_files(const fs::path& run, const std::string& prefix) {
  std::vector<std::pair<std::string, fs::path>> files;
  int64_t newest = -1;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(run, failed)) {
    auto name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    auto [stem, part] = stem_and_part(name.substr(prefix.size()));
    auto age = newness(stem);
    if (age < 0 || age < newest) continue;
    if (age > newest) files.clear();
    newest = age;
    files.emplace_back(part, entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) data_error("sample", "{} holds no weights that a run saved, {}step-100.safetensors say", run.string(), prefix);
  return files;
}

/// The extent in "768x512" or, of clips, "768x512x49"; nothing where the text is none.
std::optional<Extent> extent_of(const std::string& text) {
  Extent extent;
  auto read = [&, at = text.data(), end = text.data() + text.size()](int64_t& number, int64_t most) mutable {
    auto result = std::from_chars(at, end, number);
    at = std::min(end, result.ptr + 1);
    return result.ec == std::errc() && number > 0 && number <= most;
  };
  if (!read(extent.width, kMostPixelsASide) || !read(extent.height, kMostPixelsASide)) return std::nullopt;
  int64_t frames = 1;
  if (read(frames, drawing::kMostFrames)) extent.frames = frames;
  return extent;
}

/// The first dataset of a run.
train::DatasetChoice first_dataset(const train::TrainOptions& o) {
  bool has_file = !o.dataset_config.empty() && io::is_there(o.dataset_config);
  return has_file ? train::datasets_of(o).front() : o.dataset;
}

/// What options alone say of a run's pictures: the extent of the first dataset's, or a square of about their area where each keeps its
/// shape.
Extent asked_extent(const train::TrainOptions& o) {
  auto rule = train::subsets_of(first_dataset(o), 1).front().size;
  if (rule.height > 0) return data::extent_of(rule.fixed());
  auto area = rule.buckets ? rule.buckets->resolution.height * rule.buckets->resolution.width : rule.max_pixels;
  auto side = std::max<int64_t>(64, static_cast<int64_t>(std::sqrt(static_cast<double>(area))) / 64 * 64);
  return {.height = side, .width = side};
}

}  // namespace

void take_run(SampleOptions& o) {
  auto config = fs::path(o.run) / "config.toml";
  if (!io::is_there(config)) data_error("sample", "{} is no folder of a training run: it holds no config.toml", o.run);
  train::TrainOptions trained;
  config::Fields fields;
  train::fields(fields, trained);
  config::read_toml(config.string(), fields);
  auto seed = o.model.seed;
  o.model = trained.model;
  o.model.seed = seed;
  o.model.own.begin_with_drawing();
  o.extent = asked_extent(trained);
  o.frame_rate_of_run = first_dataset(trained).frame_rate;
  for (const auto& [part, file] : saved_files(o.run, trained.output_name.empty() ? "" : trained.output_name + "-")) {
    const auto metadata = io::SafetensorsFile::open(file)->metadata();
    if (auto size = metadata.find("resolution"); size != metadata.end()) o.extent = extent_of(size->second).value_or(o.extent);
    if (metadata.contains("adapter")) o.lora.push_back(file.string());
    else o.model.model.insert(o.model.model.begin(), file.string());  // of two files that hold a part the first is used
  }
}

}  // namespace burnish::app
