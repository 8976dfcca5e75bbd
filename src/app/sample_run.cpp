#include <algorithm>
#include <cmath>
#include <filesystem>

#include "app/run_options.h"
#include "app/sample_options.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "drawing/draw.h"
#include "io/files.h"
#include "loras/embedding_file.h"
#include "loras/merged.h"
#include "records/saved_weights.h"
#include "train/options/meaning.h"

namespace burnish::app {

namespace fs = std::filesystem;

namespace {

/// The extent in "768x512" or, of clips, "768x512x49"; nothing where the text is none.
std::optional<Extent> extent_of(const std::string& text) {
  Extent extent;
  auto read = [rest = std::string_view(text)](int64_t& number, int64_t most) mutable {
    number = take_number<int64_t>(rest).value_or(0);
    rest.remove_prefix(std::min<size_t>(rest.size(), 1));
    return number > 0 && number <= most;
  };
  if (!read(extent.width, kMostPixelsASide) || !read(extent.height, kMostPixelsASide)) return std::nullopt;
  int64_t frames = 1;
  if (read(frames, drawing::kMostFrames)) extent.frames = frames;
  return extent;
}

/// The first dataset of a run.
train::DatasetChoice first_dataset(const train::TrainOptions& o) {
  bool has_file = !o.data.config.empty() && io::is_there(o.data.config);
  return has_file ? train::datasets_of(o).front() : o.dataset;
}

/// Returns what options alone say of a run's pictures: the extent of the first dataset's, or a square of about their area where each keeps
/// its shape.
Extent asked_extent(const train::TrainOptions& o) {
  auto rule = train::subsets_of(first_dataset(o), 1).front().size;
  if (rule.height > 0) return data::extent_of(rule.fixed());
  auto area = rule.buckets ? rule.buckets->resolution.height * rule.buckets->resolution.width : rule.max_pixels;
  auto side = std::max<int64_t>(64, static_cast<int64_t>(std::sqrt(static_cast<double>(area))) / 64 * 64);
  return {.height = side, .width = side};
}

}  // namespace

void take_run(SampleOptions& o) {
  const auto trained = run_options("sample", o.run);
  auto seed = o.model.seed;
  o.model = trained.model;
  o.model.seed = seed;
  o.model.own.begin_with_drawing();
  o.extent = asked_extent(trained);
  o.frame_rate_of_run = first_dataset(trained).frame_rate;
  for (const auto& [part, file] : records::newest_weights(o.run, trained.output.name)) {
    const auto metadata = io::SafetensorsFile::open(file)->metadata();
    if (auto size = metadata.find("resolution"); size != metadata.end()) o.extent = extent_of(size->second).value_or(o.extent);
    const bool has_word = metadata.contains(loras::kEmbeddingKey);
    if (has_word) o.embedding.push_back(file.string());
    if (metadata.contains("adapter")) o.lora.push_back(file.string());
    else if (!has_word) o.model.model.insert(o.model.model.begin(), file.string());  // of two files that hold a part the first is used
  }
}

void take_times(SampleOptions& o, const std::vector<std::string>& given) {
  for (const char* name : {"sigmas", "num_inference_steps", "sampler", "timestep_spacing"}) {
    if (contains(given, name)) return;
  }
  std::vector<std::string> files;
  for (const auto& text : o.lora) files.push_back(loras::parse_lora_file(text).path);
  for (const auto& file : o.model.model) files.push_back(file);
  for (const auto& file : files) {
    if (!file.ends_with(".safetensors") || !io::is_there(file)) continue;
    const auto metadata = io::SafetensorsFile::open(file)->metadata();
    auto times = metadata.find(drawing::kTimesKey), sampler = metadata.find(drawing::kSamplerKey);
    if (times == metadata.end()) continue;
    o.sigmas = times->second;
    if (sampler != metadata.end()) o.sampler = sampler->second;
    info("{} was trained for steps at {}, by {}", file, o.sigmas, o.sampler);
    return;
  }
}

}  // namespace burnish::app
