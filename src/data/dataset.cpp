#include "data/dataset.h"

#include "base/error.h"
#include "base/text.h"

namespace burnish::data {

namespace fs = std::filesystem;

Dataset::Dataset(const DatasetOptions& options) : options_(options) {
  auto metadata = load_metadata(options.metadata_path);
  for (size_t i = 0; i < metadata.rows.size(); ++i) {
    auto row = static_cast<int64_t>(i);
    try {
      prompts_.push_back(read_prompt(metadata.rows[i], metadata.columns));
      files_.push_back("");
      files_.back() = read_file(metadata.rows[i]);
      sizes_[row] = target_size(options_.size, image_size(files_.back()), files_.back());
      rows_.push_back(row);
    } catch (const Error& error) {
      if (error.code() == Exit::config) throw;
      bad_[row] = error.what();
    }
  }
  if (bad_.empty()) return;
  auto first = bad_.begin();
  if (!options_.skip_bad_samples) {
    data_error("data", "{}: {} of {} samples cannot be used; the first is row {}: {} (--on_bad_sample skip leaves them out)",
               options_.metadata_path, bad_.size(), metadata.rows.size(), first->first, first->second);
  }
  if (rows_.empty())
    data_error("data", "{}: none of the {} samples can be used; the first is row {}: {}", options_.metadata_path, bad_.size(), first->first,
               first->second);
}

std::string Dataset::read_prompt(const nlohmann::json& row, const std::vector<std::string>& columns) const {
  for (const char* key : {"prompt", "caption", "text"}) {
    auto it = row.find(key);
    if (it == row.end()) continue;
    if (it->is_null()) return "";
    if (!it->is_string()) data_error("data", "the {} is {}, not a text", key, it->dump());
    return it->get<std::string>();
  }
  data_error("data", "no column named prompt (or caption, or text); there are: {}", join(columns));
}

std::string Dataset::read_file(const nlohmann::json& row) const {
  for (const auto& key : split_list(options_.data_file_keys)) {
    auto it = row.find(key);
    if (it == row.end()) continue;
    if (!it->is_string() || trim(it->get<std::string>()).empty()) data_error("data", "the column '{}' names no file", key);
    fs::path path(it->get<std::string>());
    if (path.is_relative()) path = fs::path(options_.base_path) / path;
    if (!fs::exists(path)) data_error("data", "the file {} does not exist", path.string());
    return path.string();
  }
  data_error("data", "none of the columns {} is there", options_.data_file_keys);
}

Sample Dataset::load(int64_t row) const {
  if (!sizes_.contains(row)) {
    auto bad = bad_.find(row);
    data_error("data", "row {} cannot be used: {}", row, bad == bad_.end() ? "there is no such row" : bad->second);
  }
  auto index = static_cast<size_t>(row);
  auto pixels = resize_and_crop(decode_image(files_[index]), sizes_.at(row));
  return {row, prompts_[index], files_[index], to_model_range(pixels)};
}

}  // namespace burnish::data
