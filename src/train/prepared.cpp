#include "train/prepared.h"

#include <ATen/ops/cat.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "pipeline/labels.h"
#include "train/preparation.h"

namespace burnish::train {

namespace {

constexpr int kListSchema = 1;
const char* const kList = "samples.json";

}  // namespace

Prepared::Prepared(models::Model& model, const pipeline::Cut& cut, const data::Dataset& dataset, data::Cache& cache, Share share)
    : cache_(cache) {
  num_variants_ = dataset.num_variants();
  for (auto row : dataset.rows()) {
    auto file = std::filesystem::absolute(dataset.file(row)).string();
    samples_.push_back({row, dataset.size(row), dataset.prompt(row), dataset.extra(row), file});
    by_row_[row].resize(static_cast<size_t>(num_variants_));
  }
  if (cut.prepare.empty()) return;
  Preparation preparation(model, cut.prepare, cut.carried, dataset, cache, share);
  preparation.run();
  auto places = [&](size_t input) {
    Places found;
    for (const auto& [name, place] : preparation.places(input)) found[name] = {place.section, place.key};
    return found;
  };
  for (size_t i = 0; i + 1 < preparation.num_inputs(); ++i) {
    by_row_[preparation.row(i)][i % static_cast<size_t>(num_variants_)] = places(i);
    samples_[i / static_cast<size_t>(num_variants_)].file_hash = preparation.picture_hash(i);
  }
  empty_caption_ = places(preparation.num_inputs() - 1);
  metadata_path_ = std::filesystem::absolute(dataset.metadata_path()).string();
  metadata_hash_ = dataset.metadata_hash();
}

Prepared::Prepared(data::Cache& cache, const std::vector<std::string>& carried) : cache_(cache) {
  auto path = cache.folder() / kList;
  if (!io::is_there(path)) {
    data_error("train", "{} is not there: the cache holds no list of samples; make it with `burnish cache` or --task sft:data_process",
               path.string());
  }
  try {
    auto json = io::read_json(path);
    if (json.at("schema") != kListSchema) data_error("train", "{} is of another version; make the cache again", path.string());
    std::map<std::string, data::CacheSection*> sections;
    for (const auto& name : carried) {
      if (!json.at("sections").contains(name))
        data_error("train", "the cache {} holds no '{}', which this run reads; make it again for this task", cache.folder().string(), name);
      sections[name] = &cache.section(json["sections"][name].get<std::string>());
    }
    for (const auto& sample : json.at("samples")) {
      auto row = sample.at("row").get<int64_t>();
      data::Size size{sample.at("height").get<int64_t>(), sample.at("width").get<int64_t>()};
      has_captions_ = has_captions_ && sample.contains("prompt");
      samples_.push_back({row, size, sample.value("prompt", ""), sample.value("inputs", nlohmann::json::object()), sample.value("file", ""),
                          sample.value("file_hash", "")});
      by_row_[row] = {read_places(sample.at("keys"), sections)};
      for (const auto& keys : sample.value("other_variants", nlohmann::json::array())) by_row_[row].push_back(read_places(keys, sections));
      num_variants_ = std::ssize(by_row_[row]);
    }
    empty_caption_ = read_places(json.at("empty_caption"), sections);
    metadata_path_ = json.value("metadata", "");
    metadata_hash_ = json.value("metadata_hash", "");
  } catch (const nlohmann::json::exception& error) {
    data_error("train", "{} is damaged ({}); make it again with `burnish cache`", path.string(), error.what());
  }
  check_listed();
  check_origin();
}

/// What a caption or picture was changed to after the cache was made is not in it.
void Prepared::check_origin() const {
  const char* what_to_do = "give the command that made the cache again, which computes what was changed and nothing else";
  if (!metadata_path_.empty() && io::is_there(metadata_path_) && data::metadata_hash(data::load_metadata(metadata_path_)) != metadata_hash_)
    data_error("train", "the metadata {} was changed after the cache {} was made; {}", metadata_path_, cache_.folder().string(),
               what_to_do);
  std::vector<const SampleInfo*> there;
  std::vector<std::filesystem::path> files;
  for (const auto& sample : samples_) {
    if (sample.file.empty() || !io::is_there(sample.file)) continue;
    there.push_back(&sample);
    files.emplace_back(sample.file);
  }
  auto hashes = cache_.hashes().hash(files);
  for (size_t i = 0; i < there.size(); ++i) {
    if (hashes[i] != there[i]->file_hash)
      data_error("train", "the picture {} (row {}) was changed after the cache {} was made; {}", there[i]->file, there[i]->row,
                 cache_.folder().string(), what_to_do);
  }
}

Prepared::Prepared(data::Cache& cache, const std::vector<ImportedSample>& imported) : cache_(cache) {
  has_captions_ = false;
  for (const auto& sample : imported) {
    samples_.push_back(sample.info);
    Places places;
    for (const auto& [name, place] : sample.places) places[name] = {place.first, place.second};
    by_row_[sample.info.row] = {places};
  }
}

/// Compares checksums, and makes sure that nothing is missing.
void Prepared::check_listed() const {
  if (samples_.empty()) data_error("train", "the cache {} lists no samples", cache_.folder().string());
  std::map<data::CacheSection*, std::vector<std::string>> wanted;
  for (const auto& [row, variants] : by_row_) {
    if (std::ssize(variants) != num_variants_)
      data_error("train", "{} is damaged (row {} has {} variants); make it again with `burnish cache`", (cache_.folder() / kList).string(),
                 row, variants.size());
    for (const auto& places : variants) {
      for (const auto& [name, place] : places) wanted[place.section].push_back(place.key);
    }
  }
  for (const auto& [name, place] : empty_caption_) wanted[place.section].push_back(place.key);
  for (auto& [section, keys] : wanted) section->verify(keys);
  auto missing = std::ssize(samples_) - num_complete();
  if (missing > 0) {
    data_error("train", "{} of the {} samples in the cache {} are missing or damaged; complete it with the command that made it", missing,
               samples_.size(), cache_.folder().string());
  }
}

Prepared::Places Prepared::read_places(const nlohmann::json& json, const std::map<std::string, data::CacheSection*>& sections) const {
  Places places;
  for (const auto& [name, section] : sections) {
    if (json.contains(name)) places[name] = {section, json[name].get<std::string>()};
  }
  return places;
}

int64_t Prepared::num_complete() const {
  auto is_there = [](const Places& places) {
    return std::all_of(places.begin(), places.end(), [](const auto& p) { return p.second.section->contains(p.second.key); });
  };
  if (!is_there(empty_caption_)) return 0;
  return std::count_if(by_row_.begin(), by_row_.end(),
                       [&](const auto& item) { return std::all_of(item.second.begin(), item.second.end(), is_there); });
}

int64_t Prepared::num_bytes() const {
  std::set<std::pair<data::CacheSection*, std::string>> counted;
  int64_t bytes = 0;
  for (const auto& [row, variants] : by_row_) {
    for (const auto& places : variants) {
      for (const auto& [name, place] : places) {
        if (!place.section->contains(place.key) || !counted.emplace(place.section, place.key).second) continue;
        for (const auto& [value, tensor] : place.section->at(place.key)) bytes += static_cast<int64_t>(tensor.nbytes());
      }
    }
  }
  return bytes;
}

void Prepared::save_list() const {
  auto keys = [](const Places& places) {
    auto json = nlohmann::ordered_json::object();
    for (const auto& [name, place] : places) json[name] = place.key;
    return json;
  };
  nlohmann::ordered_json list{{"schema", kListSchema}, {"sections", nlohmann::ordered_json::object()}};
  for (const auto& [name, place] : by_row_.begin()->second.front()) list["sections"][name] = place.section->name();
  if (!metadata_path_.empty()) {
    list["metadata"] = metadata_path_;
    list["metadata_hash"] = metadata_hash_;
  }
  list["empty_caption"] = keys(empty_caption_);
  for (const auto& sample : samples_) {
    const auto& variants = by_row_.at(sample.row);
    list["samples"].push_back({{"row", sample.row},
                               {"prompt", sample.prompt},
                               {"height", sample.size.height},
                               {"width", sample.size.width},
                               {"keys", keys(variants.front())}});
    if (!sample.file.empty()) {
      list["samples"].back()["file"] = sample.file;
      list["samples"].back()["file_hash"] = sample.file_hash;
    }
    if (!sample.inputs.empty()) list["samples"].back()["inputs"] = sample.inputs;
    for (size_t i = 1; i < variants.size(); ++i) list["samples"].back()["other_variants"].push_back(keys(variants[i]));
  }
  io::write_text_atomic(cache_.folder() / kList, list.dump(1) + "\n");
}

const SampleInfo& Prepared::sample(int64_t row) const {
  auto it = std::lower_bound(samples_.begin(), samples_.end(), row, [](const auto& sample, int64_t r) { return sample.row < r; });
  if (it == samples_.end() || it->row != row) data_error("train", "row {} is not among the {} usable samples", row, samples_.size());
  return *it;
}

const std::vector<Prepared::Places>& Prepared::places(int64_t row) const {
  auto it = by_row_.find(row);
  if (it == by_row_.end()) data_error("train", "row {} is not among the {} usable samples", row, by_row_.size());
  return it->second;
}

pipeline::Values Prepared::values(const Pick& pick) const {
  pipeline::Values values;
  for (const auto& [name, own] : places(pick.row).at(static_cast<size_t>(pick.variant))) {
    auto empty = empty_caption_.find(name);
    const auto& place = pick.empty_caption && empty != empty_caption_.end() ? empty->second : own;
    values[name] = place.section->at(place.key).at(name);
  }
  return values;
}

std::vector<int64_t> latent_shape_of(const pipeline::Values& sample) {
  auto it = sample.find("latents");
  if (it == sample.end()) it = sample.find("latents_mean");
  if (it == sample.end()) return {};
  return std::get<at::Tensor>(it->second).sizes().slice(1).vec();
}

void Prepared::check_empty_caption(const pipeline::Units& units) const {
  auto labels = pipeline::label(units, {{"prompt", {.sample = true}}}, {});
  for (const auto& [name, place] : by_row_.begin()->second.front()) {
    if (labels[name].sample && empty_caption_.empty())
      data_error("train", "caption_dropout needs the empty caption, which an imported cache does not hold; set it to 0");
    if (labels[name].sample && !empty_caption_.contains(name))
      data_error("train", "caption_dropout needs the {} of an empty caption, and here it depends on the picture as well; set it to 0",
                 name);
  }
}

void Prepared::check_shapes(const std::map<std::string, std::vector<int64_t>>& expected) const {
  auto shape_of = [&](const std::string& name) {
    auto is_moment = name == "latents_mean" || name == "latents_logvar";
    auto it = expected.find(is_moment ? "latents" : name);
    return it == expected.end() ? std::vector<int64_t>{} : it->second;
  };
  for (const auto& sample : samples_) {
    for (const auto& [name, value] : values(sample.row)) {
      auto shape = shape_of(name), found = std::get<at::Tensor>(value).sizes().vec();
      auto fits =
          std::equal(shape.begin(), shape.end(), found.begin(), found.end(), [](auto want, auto is) { return want < 0 || want == is; });
      if (shape.empty() || fits) continue;
      data_error("train",
                 "the {} of row {} in the cache has the shape {}, and this denoiser takes {} (-1: any size); it was made for another model",
                 name, sample.row, found, shape);
    }
  }
}

}  // namespace burnish::train
