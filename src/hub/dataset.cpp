#include "hub/dataset.h"

#include <algorithm>

#include "base/input_error.h"
#include "base/shortened.h"
#include "base/text.h"
#include "hub/repository.h"

namespace burnish::hub {

namespace {

const std::string kScheme = "hf://", kDatasets = "datasets/";

[[noreturn]] void refuse(const std::string& text) {
  config_error("hub", "'{}' names no dataset of a hub; write hf://datasets/AUTHOR/NAME, and behind it @REVISION and /PATH where you want",
               text);
}

/// Tells whether a file of the root says something of a dataset and is no part of it.
bool is_about(const std::string& path) { return path.ends_with(".md") || path.starts_with(".") || path.starts_with("LICENSE"); }

/// Returns the path of the dataset that is meant where none is named.
std::string part_meant(const std::vector<std::string>& paths) {
  const bool is_below_data = std::ranges::all_of(paths, [](const auto& path) { return path.starts_with("data/") || is_about(path); });
  return is_below_data ? "data" : "";
}

}  // namespace

std::optional<DatasetAddress> dataset_address(const std::string& text) {
  if (!text.starts_with(kScheme)) return std::nullopt;
  auto rest = text.substr(kScheme.size());
  if (!rest.starts_with(kDatasets)) refuse(text);
  rest = rest.substr(kDatasets.size());
  const auto author = rest.find('/');
  if (author == rest.npos) refuse(text);
  const auto end = std::min(rest.find('/', author + 1), rest.size());
  auto name = rest.substr(0, end);
  DatasetAddress address;
  if (end < rest.size()) address.path = rest.substr(end + 1);
  while (address.path.ends_with('/')) address.path.pop_back();
  if (const auto at = name.find('@'); at != name.npos) {
    address.revision = name.substr(at + 1);
    name = name.substr(0, at);
  }
  if (!is_model_id(name) || !is_safe_path(address.revision) || (!address.path.empty() && !is_safe_path(address.path))) refuse(text);
  address.id = kDatasets + name;
  return address;
}

std::filesystem::path fetch_dataset(const DatasetAddress& address, const Settings& settings) {
  Repository repository(address.id, make_huggingface(settings, address.revision),
                        huggingface_cache(settings.huggingface_cache, address.id, address.revision), settings);
  const auto all = repository.paths();
  const auto part = address.path.empty() ? part_meant(all) : address.path;
  std::vector<std::string> wanted;
  std::ranges::copy_if(all, std::back_inserter(wanted),
                       [&](const auto& path) { return part.empty() || path == part || path.starts_with(part + "/"); });
  if (wanted.empty())
    data_error("hub", "{} holds no '{}' at {}; it has {}", address.id, part, address.revision,
               all.empty() ? "no files" : shortened(join(all), 300));
  repository.fetch(wanted);
  return part.empty() ? repository.folder() : repository.folder() / part;
}

}  // namespace burnish::hub
