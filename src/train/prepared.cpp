#include "train/prepared.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "train/preparation.h"

namespace burnish::train {

namespace {

constexpr int kListSchema = 1;
const char* const kList = "samples.json";

}  // namespace

Prepared::Prepared(models::Model& model, const pipeline::Cut& cut, const data::Dataset& dataset, data::Cache& cache, Share share)
    : cache_(cache) {
  Preparation preparation(model, cut.prepare, cut.carried, dataset, cache, share);
  preparation.run();
  auto places = [&](size_t input) {
    Places found;
    for (const auto& [name, place] : preparation.places(input)) found[name] = {place.section, place.key};
    return found;
  };
  for (size_t i = 0; i < dataset.rows().size(); ++i) {
    auto row = dataset.rows()[i];
    samples_.push_back({row, dataset.size(row)});
    by_row_[row] = places(i);
  }
  empty_caption_ = places(dataset.rows().size());
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
      samples_.push_back({row, {sample.at("height").get<int64_t>(), sample.at("width").get<int64_t>()}});
      by_row_[row] = read_places(sample.at("keys"), sections);
    }
    empty_caption_ = read_places(json.at("empty_caption"), sections);
  } catch (const nlohmann::json::exception& error) {
    data_error("train", "{} is damaged ({}); make it again with `burnish cache`", path.string(), error.what());
  }
  std::map<data::CacheSection*, std::vector<std::string>> wanted;
  for (const auto& [row, places] : by_row_) {
    for (const auto& [name, place] : places) wanted[place.section].push_back(place.key);
  }
  for (auto& [section, keys] : wanted) section->verify(keys);
  auto missing = std::ssize(samples_) - num_complete();
  if (missing > 0) {
    data_error("train", "{} of the {} samples in the cache {} are missing or damaged; complete it with the command that made it", missing,
               samples_.size(), cache.folder().string());
  }
  if (samples_.empty()) data_error("train", "the cache {} lists no samples", cache.folder().string());
}

Prepared::Places Prepared::read_places(const nlohmann::json& json, const std::map<std::string, data::CacheSection*>& sections) const {
  Places places;
  for (const auto& [name, section] : sections) {
    if (json.contains(name)) places[name] = {section, json[name].get<std::string>()};
  }
  return places;
}

int64_t Prepared::num_complete() const {
  return std::count_if(by_row_.begin(), by_row_.end(), [](const auto& item) {
    return std::all_of(item.second.begin(), item.second.end(), [](const auto& p) { return p.second.section->contains(p.second.key); });
  });
}

int64_t Prepared::num_bytes() const {
  std::set<std::pair<data::CacheSection*, std::string>> counted;
  int64_t bytes = 0;
  for (const auto& [row, places] : by_row_) {
    for (const auto& [name, place] : places) {
      if (!place.section->contains(place.key) || !counted.emplace(place.section, place.key).second) continue;
      for (const auto& [value, tensor] : place.section->at(place.key)) bytes += static_cast<int64_t>(tensor.nbytes());
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
  for (const auto& [name, place] : by_row_.begin()->second) list["sections"][name] = place.section->name();
  list["empty_caption"] = keys(empty_caption_);
  for (const auto& sample : samples_) {
    list["samples"].push_back(
        {{"row", sample.row}, {"height", sample.size.height}, {"width", sample.size.width}, {"keys", keys(by_row_.at(sample.row))}});
  }
  io::write_text_atomic(cache_.folder() / kList, list.dump(1) + "\n");
}

const Prepared::Places& Prepared::places(int64_t row) const {
  auto it = by_row_.find(row);
  if (it == by_row_.end()) data_error("train", "row {} is not among the {} usable samples", row, by_row_.size());
  return it->second;
}

pipeline::Values Prepared::values(int64_t row) const {
  pipeline::Values values;
  for (const auto& [name, place] : places(row)) values[name] = place.section->at(place.key).at(name);
  return values;
}

pipeline::Values Prepared::batch(const std::vector<int64_t>& rows) const {
  std::vector<pipeline::Values> samples;
  for (auto row : rows) samples.push_back(values(row));
  pipeline::Values joined;
  for (const auto& [name, first] : samples.front()) {
    std::vector<at::Tensor> parts;
    for (const auto& sample : samples) parts.push_back(std::get<at::Tensor>(sample.at(name)));
    joined[name] = parts.size() == 1 ? parts[0] : at::cat(parts, 0);
  }
  return joined;
}

}  // namespace burnish::train
