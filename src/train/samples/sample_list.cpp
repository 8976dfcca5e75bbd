#include "train/samples/sample_list.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/limits.h"
#include "data/load_metadata.h"
#include "io/files.h"
#include "io/hash.h"
#include "io/json.h"

namespace burnish::train {

namespace {

constexpr int kSchema = 2;
const char *const kList = "samples.json", *const kDigests = "digests_of_options", *const kExtraInputs = "extra_inputs";
constexpr int64_t kMostListedFrames = 1'000'000;  // of a clip, to which nothing that is sampled comes near
constexpr double kMostListedRate = 1e6;           // frames a second that no clip comes near
constexpr double kMostFactor = 1e12;              // on a loss, a weight or a strength
const char* const kMakeAgain = "make it again with `burnish cache`";

using Sections = std::map<std::string, data::CacheSection*>;

CacheSlots read_entries(const nlohmann::json& json, const Sections& sections) {
  CacheSlots entries;
  for (const auto& [name, section] : sections) {
    if (json.contains(name)) entries[name] = {section, json[name].get<std::string>()};
  }
  return entries;
}

Sections read_sections(data::Cache& cache, const nlohmann::json& json, const std::vector<std::string>& kept) {
  Sections sections;
  for (const auto& name : kept) {
    if (!json.at("sections").contains(name))
      data_error("train", "the cache {} holds no '{}', which this run reads; make it again for this task", cache.folder().string(), name);
    sections[name] = &cache.section(json["sections"][name].get<std::string>());
  }
  return sections;
}

[[noreturn]] void refuse_value(const nlohmann::json& value, const std::string& expected) {
  data_error("train", "the cache's list of samples is damaged: {} stands where {} was expected; {}", value.dump(), expected, kMakeAgain);
}

/// A whole number of the list.
int64_t read_count(const nlohmann::json& number, int64_t least, int64_t most) {
  const auto count = number.get<int64_t>();
  if (!number.is_number_integer() || count < least || count > most)
    refuse_value(number, fmt::format("a whole number from {} to {}", least, most));
  return count;
}

/// A number of the list; `otherwise` where it has none.
double read_number(const nlohmann::json& json, const char* key, double otherwise, double least, double most) {
  const auto number = json.value(key, otherwise);
  if (!(number >= least && number <= most)) refuse_value(json[key], fmt::format("a number from {} to {}", least, most));
  return number;
}

data::CaptionRule read_caption_rule(const nlohmann::json& json) {
  data::CaptionRule rule;
  rule.prefix = json.value("caption_prefix", rule.prefix);
  rule.suffix = json.value("caption_suffix", rule.suffix);
  rule.dropout = read_number(json, "caption_dropout_rate", rule.dropout, 0, 1);
  rule.wildcards = json.value("enable_wildcard", rule.wildcards);
  rule.shuffle = json.value("shuffle_caption", rule.shuffle);
  rule.tag_dropout = read_number(json, "caption_tag_dropout_rate", rule.tag_dropout, 0, 1);
  rule.keep_tokens = json.value("keep_tokens", rule.keep_tokens);
  rule.keep_separator = json.value("keep_tokens_separator", rule.keep_separator);
  rule.separator = json.value("caption_separator", rule.separator);
  if (rule.separator.empty()) refuse_value(json["caption_separator"], "what stands between tags");
  rule.secondary_separator = json.value("secondary_separator", rule.secondary_separator);
  return rule;
}

/// Under the names of the options.
nlohmann::ordered_json json_of(const data::CaptionRule& rule) {
  return {{"caption_prefix", rule.prefix},        {"caption_suffix", rule.suffix},
          {"caption_dropout_rate", rule.dropout}, {"enable_wildcard", rule.wildcards},
          {"shuffle_caption", rule.shuffle},      {"caption_tag_dropout_rate", rule.tag_dropout},
          {"keep_tokens", rule.keep_tokens},      {"keep_tokens_separator", rule.keep_separator},
          {"caption_separator", rule.separator},  {"secondary_separator", rule.secondary_separator}};
}

constexpr const char *kPictures = "pictures", *kClips = "clips";

data::Media read_media(const nlohmann::json& json) {
  if (!json.contains("media")) return data::Media::all;
  const auto& word = json["media"];
  if (word != kPictures && word != kClips) refuse_value(word, "pictures or clips");
  return word == kClips ? data::Media::clips : data::Media::pictures;
}

void read_set(const nlohmann::json& json, Samples& samples) {
  samples.sets.push_back({json.at("num_repeats").get<double>(), json.at("of_class_set").get<bool>(), read_caption_rule(json),
                          json.value("trigger_word", ""), read_number(json, "slider_strength", 1, -kMostFactor, kMostFactor)});
  samples.origins.push_back({json.at("metadata").get<std::string>(),
                             json.at("metadata_hash").get<std::string>(),
                             {.endings = json.at("caption_extension").get<std::string>(),
                              .class_tokens = json.at("class_tokens").get<std::string>(),
                              .trigger_word = samples.sets.back().trigger_word,
                              .with_videos = json.value("with_videos", false),
                              .mask_folder = json.value("mask_folder", ""),
                              .media = read_media(json)}});
}

nlohmann::ordered_json json_of(const data::VisitRule& set, const data::MetadataOrigin& origin) {
  nlohmann::ordered_json json{{"metadata", origin.path},
                              {"metadata_hash", origin.hash},
                              {"caption_extension", origin.captions.endings},
                              {"class_tokens", origin.captions.class_tokens},
                              {"num_repeats", set.num_repeats},
                              {"of_class_set", set.of_class_set}};
  json.update(json_of(set.captions));
  if (!set.trigger_word.empty()) json["trigger_word"] = set.trigger_word;
  if (set.slider_strength != 1) json["slider_strength"] = set.slider_strength;
  if (origin.captions.with_videos) json["with_videos"] = true;
  if (!origin.captions.mask_folder.empty()) json["mask_folder"] = origin.captions.mask_folder;
  if (origin.captions.media != data::Media::all) json["media"] = origin.captions.media == data::Media::clips ? kClips : kPictures;
  return json;
}

Extent read_extent(const nlohmann::json& json) {
  return {.frames = json.contains("frames") ? read_count(json["frames"], 1, kMostListedFrames) : 1,
          .height = read_count(json.at("height"), 1, kMostPixelsASide),
          .width = read_count(json.at("width"), 1, kMostPixelsASide)};
}

void read_sample(const nlohmann::json& json, const Sections& sections, Listed& listed) {
  auto& [samples, kept] = listed;
  const auto least_row = samples.list.empty() ? 0 : samples.list.back().number + 1;
  Sample sample{.number = read_count(json.at("row"), least_row, kMostSamples), .extent = read_extent(json)};
  sample.row.prompt = json.value("prompt", "");
  sample.row.cells = json.value("inputs", nlohmann::json::object());
  sample.row.file = json.value("file", "");
  sample.row.loss_weight = read_number(json, "loss_weight", 1, 0, kMostFactor);
  sample.row.subset = json.contains("set") ? static_cast<size_t>(read_count(json["set"], 0, kMostSamples)) : 0;
  for (const auto& caption : json.value("captions", nlohmann::json::array()))
    sample.row.captions.push_back({caption.at("text").get<std::string>(), read_number(caption, "weight", 1, 0, kMostFactor)});
  sample.frame_rate = read_number(json, "frame_rate", 0, 0, kMostListedRate);
  const auto sizes = json.value("picture_sizes", nlohmann::json::object());
  for (const auto& [column, list] : sizes.items()) {
    auto& of_column = sample.picture_extents[column];
    for (const auto& sides : list)
      of_column.push_back({.frames = sides.size() > 2 ? read_count(sides.at(2), 0, kMostListedFrames) : 1,
                           .height = read_count(sides.at(0), 0, kMostPixelsASide),
                           .width = read_count(sides.at(1), 0, kMostPixelsASide)});
  }
  if (sample.row.captions.empty()) sample.row.captions.push_back({sample.row.prompt});
  if (sample.row.subset >= samples.sets.size())
    data_error("train", "row {} is of the dataset {}, and the list has {}; make the cache again", sample.number, sample.row.subset,
               samples.sets.size());
  samples.has_captions = samples.has_captions && json.contains("prompt");
  auto& variants = kept.by_row[sample.number] = {read_entries(json.at("keys"), sections)};
  for (const auto& keys : json.value("other_variants", nlohmann::json::array())) variants.push_back(read_entries(keys, sections));
  samples.num_variants = std::ssize(variants);
  auto& hashes = kept.hashes[sample.number] = {{"", json.value("file_hash", "")}};
  const auto further = json.value("further_files", nlohmann::json::object());
  for (const auto& [column, file] : further.items()) {
    sample.row.further[column] = file.at("file").get<std::string>();
    hashes[column] = file.at("file_hash").get<std::string>();
  }
  samples.list.push_back(std::move(sample));
}

/// Compares checksums, and makes sure that nothing is missing.
void check_listed(const data::Cache& cache, const Listed& listed) {
  const auto& [samples, kept] = listed;
  if (samples.list.empty()) data_error("train", "the cache {} lists no samples", cache.folder().string());
  if (std::ranges::all_of(samples.list, [&](const auto& sample) { return samples.set_of(sample).of_class_set; }))
    data_error("train", "the cache {} lists samples of class sets alone, and none is to be learned; make it again with a dataset that is",
               cache.folder().string());
  std::map<data::CacheSection*, std::vector<std::string>> wanted;
  for (const auto& [row, variants] : kept.by_row) {
    if (std::ssize(variants) != samples.num_variants)
      data_error("train", "{} is damaged (row {} has {} variants); make it again with `burnish cache`", (cache.folder() / kList).string(),
                 row, variants.size());
    for (const auto& entries : variants) {
      for (const auto& [name, entry] : entries) wanted[entry.section].push_back(entry.key);
    }
  }
  for (const auto& [name, entry] : kept.empty_caption) wanted[entry.section].push_back(entry.key);
  for (auto& [section, keys] : wanted) section->verify(keys);
  auto missing = std::ssize(samples.list) - kept.num_complete();
  if (missing > 0) {
    data_error("train", "{} of the {} samples in the cache {} are missing or damaged; complete it with the command that made it", missing,
               samples.list.size(), cache.folder().string());
  }
}

/// What a caption or picture was changed to after the cache was made is not in it.
void check_origin(data::Cache& cache, const Listed& listed) {
  const char* what_to_do = "give the command that made the cache again, which computes what was changed and nothing else";
  const auto& [samples, kept] = listed;
  for (const auto& [path, hash, captions] : samples.origins) {
    if (!path.empty() && io::is_there(path) && data::metadata_hash(data::load_metadata(path, captions)) != hash)
      data_error("train", "the metadata {} was changed after the cache {} was made; {}", path, cache.folder().string(), what_to_do);
  }
  std::vector<int64_t> rows;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> known;
  auto look_at = [&](int64_t row, const std::string& file, const std::string& hash) {
    if (file.empty() || !io::is_there(file)) return;
    rows.push_back(row);
    files.emplace_back(file);
    known.push_back(hash);
  };
  for (const auto& sample : samples.list) {
    const auto& hashes = kept.hashes.at(sample.number);
    look_at(sample.number, sample.row.file, hashes.at(""));
    for (const auto& [column, file] : sample.row.further) look_at(sample.number, file, hashes.at(column));
  }
  auto hashes = cache.hashes().hash(files);
  for (size_t i = 0; i < files.size(); ++i) {
    if (hashes[i] != known[i])
      data_error("train", "the picture {} (row {}) was changed after the cache {} was made; {}", files[i].string(), rows[i],
                 cache.folder().string(), what_to_do);
  }
}

nlohmann::ordered_json keys_of(const CacheSlots& entries) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [name, entry] : entries) json[name] = entry.key;
  return json;
}

nlohmann::ordered_json entry_of(const Sample& sample, const Kept& kept) {
  const auto& variants = kept.by_row.at(sample.number);
  nlohmann::ordered_json json{{"row", sample.number},
                              {"prompt", sample.row.prompt},
                              {"height", sample.extent.height},
                              {"width", sample.extent.width},
                              {"keys", keys_of(variants.front())}};
  if (sample.extent.frames > 1) json["frames"] = sample.extent.frames;
  if (!sample.row.file.empty()) {
    auto hashes = kept.hashes.find(sample.number);
    json["file"] = sample.row.file;
    json["file_hash"] = hashes == kept.hashes.end() ? "" : hashes->second.at("");
  }
  for (const auto& [column, file] : sample.row.further)
    json["further_files"][column] = {{"file", file}, {"file_hash", kept.hashes.at(sample.number).at(column)}};
  for (const auto& [column, extents] : sample.picture_extents) {
    auto& list = json["picture_sizes"][column] = nlohmann::ordered_json::array();
    for (const auto& extent : extents) {
      list.push_back({extent.height, extent.width});
      if (extent.frames != 1) list.back().push_back(extent.frames);
    }
  }
  if (sample.frame_rate > 0) json["frame_rate"] = sample.frame_rate;
  if (!sample.row.cells.empty()) json["inputs"] = sample.row.cells;
  if (sample.row.loss_weight != 1) json["loss_weight"] = sample.row.loss_weight;
  if (sample.row.subset > 0) json["set"] = sample.row.subset;
  bool is_plain = sample.row.captions.size() == 1 && sample.row.captions[0].text == sample.row.prompt;
  for (const auto& [text, weight] : is_plain ? data::Captions() : sample.row.captions)
    json["captions"].push_back({{"text", text}, {"weight", weight}});
  for (size_t i = 1; i < variants.size(); ++i) json["other_variants"].push_back(keys_of(variants[i]));
  return json;
}

}  // namespace

Listed read_list(data::Cache& cache, const std::vector<std::string>& kept) {
  auto path = cache.folder() / kList;
  if (!io::is_there(path)) {
    data_error("train", "{} is not there: the cache holds no list of samples; make it with `burnish cache` or --task sft:data_process",
               path.string());
  }
  Listed listed;
  io::read_own_json(path, kMakeAgain, [&](const nlohmann::json& json) {
    if (json.at("schema") != kSchema) data_error("train", "{} is of another version; make the cache again", path.string());
    auto sections = read_sections(cache, json, kept);
    listed.samples.sets.clear();
    listed.samples.origins.clear();
    for (const auto& set : json.at("datasets")) read_set(set, listed.samples);
    for (const auto& sample : json.at("samples")) read_sample(sample, sections, listed);
    listed.kept.empty_caption = read_entries(json.at("empty_caption"), sections);
    listed.kept.digests = json.value(kDigests, std::map<std::string, std::string>());
  });
  check_listed(cache, listed);
  check_origin(cache, listed);
  return listed;
}

std::map<std::string, std::string> digests_of_options(const Samples& samples) {
  std::map<std::string, std::string> digests;
  for (const auto& input : samples.inputs->rows()) {
    if (input.option.empty()) continue;
    io::Sha256 hash;
    for (const auto& sample : samples.list) hash.update(input.content(samples, {.row = sample.number}, {}) + "\n");
    digests[input.name] = hash.hex();
  }
  return digests;
}

ListHead read_list_head(const std::filesystem::path& cache) {
  if (!io::is_there(cache / kList)) return {};
  try {
    Samples samples;
    const auto json = io::read_json_without(cache / kList, "samples");
    for (const auto& set : json.value("datasets", nlohmann::json::array())) read_set(set, samples);
    return {samples.sets, join(json.value(kExtraInputs, std::vector<std::string>()), ",")};
  } catch (const nlohmann::json::exception&) {
    return {};  // read_list says what is wrong
  }
}

void save_list(data::Cache& cache, const Samples& samples, const Kept& kept) {
  nlohmann::ordered_json list{{"schema", kSchema}, {"sections", nlohmann::ordered_json::object()}};
  for (const auto& [name, entry] : kept.by_row.begin()->second.front()) list["sections"][name] = entry.section->name();
  for (size_t i = 0; i < samples.sets.size(); ++i) list["datasets"].push_back(json_of(samples.sets[i], samples.origins.at(i)));
  list[kDigests] = digests_of_options(samples);
  if (!samples.extra_inputs.empty()) list[kExtraInputs] = samples.extra_inputs;
  list["empty_caption"] = keys_of(kept.empty_caption);
  for (const auto& sample : samples.list) list["samples"].push_back(entry_of(sample, kept));
  io::write_text_atomic(cache.folder() / kList, list.dump(1) + "\n");
}

}  // namespace burnish::train
