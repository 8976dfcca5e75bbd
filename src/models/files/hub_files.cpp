#include "models/files/hub_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "hub/repository.h"
#include "io/checkpoint_files.h"
#include "io/files.h"
#include "io/json.h"
#include "models/files/files.h"
#include "models/files/hub_amount.h"
#include "models/files/pipeline_index.h"

namespace burnish::models {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

namespace {

/// The names of the files directly in a folder ("" for the model's own, else with a slash at its end).
Paths names_in(const Paths& paths, const std::string& folder) {
  Paths names;
  for (const auto& path : paths) {
    if (path.starts_with(folder) && path.find('/', folder.size()) == path.npos) names.push_back(path.substr(folder.size()));
  }
  return names;
}

/// Settings, vocabularies, names of tags and indexes of shards: small, and read beside weights.
bool is_small(const std::string& path) {
  return path.ends_with(".json") || path.ends_with(".txt") || path.ends_with(".model") || path.ends_with("selected_tags.csv");
}

Paths small_files(const Paths& paths, const std::string& folder) {
  Paths small;
  for (const auto& name : names_in(paths, folder)) {
    if (is_small(name)) small.push_back(folder + name);
  }
  return small;
}

/// The components that an index lists and a run may open.
std::vector<IndexedComponent> opened_of(const nlohmann::json& index, HubUse use) {
  bool is_told = use != HubUse::without_denoiser || index.contains("text_encoder_2");
  auto components = components_in(index);
  std::erase_if(components, [&](const IndexedComponent& component) {
    // Of image encoders, Wan's is of this class and read by its transformer; others are for adapters that bring their own.
    bool is_unused = is_unused_component(component.name) && component.class_name != "CLIPVisionModel";
    return is_unused || (is_told && leaves_out(use, component.name));
  });
  return components;
}

/// Goes through the files that opening a folder needs, those first that tell of others. `have` makes files be here, or says that they are
/// not; the rest is then left. Whether all are here.
class Opening {
 public:
  Opening(const Paths& paths, std::function<fs::path()> root, std::function<bool(const Paths&)> have)
      : paths_(paths), root_(std::move(root)), have_(std::move(have)) {}

  /// A diffusers folder, or one of a component where no index is.
  bool model(const std::string& folder, HubUse use) const {
    for (const auto& name : kIndexNames) {
      const auto index = folder + name;
      if (!std::ranges::count(paths_, index)) continue;
      if (!have_({index})) return false;
      Paths folders;
      for (const auto& component : opened_of(io::read_json(root_() / index), use)) {
        const auto place = folder + component.folder + "/";
        const bool is_here = std::ranges::any_of(paths_, [&](const auto& path) { return path.starts_with(place); });
        if ((is_here || !component.may_lie_elsewhere) && !contains(folders, place)) folders.push_back(place);
      }
      return components(folders);
    }
    const auto names = names_in(paths_, folder);
    const bool is_component = contains(names, "config.json") || std::ranges::any_of(names, io::is_tensor_file);
    return components(is_component ? Paths{folder} : folders_below(folder));
  }

 private:
  bool components(const Paths& folders) const {
    Paths small;
    for (const auto& folder : folders) {
      auto files = small_files(paths_, folder);
      if (files.empty() && names_in(paths_, folder).empty()) return false;
      small.insert(small.end(), files.begin(), files.end());
    }
    if (!have_(small)) return false;
    Paths weights;
    for (const auto& folder : folders) {
      auto files = weights_in(folder);
      bool expected = std::ranges::count(paths_, folder + "config.json") > 0;
      if (files.empty() && expected) return false;
      weights.insert(weights.end(), files.begin(), files.end());
    }
    return have_(weights);
  }

  /// The folders of components that no index lists, and of what is read beside them; the folder itself where it has none.
  Paths folders_below(const std::string& folder) const {
    Paths below;
    for (const auto& path : paths_) {
      if (!path.starts_with(folder)) continue;
      const auto slash = path.find('/', folder.size());
      if (slash == path.npos) continue;
      const auto place = path.substr(0, slash + 1), name = path.substr(folder.size(), slash - folder.size());
      const bool is_part = path == place + "config.json" || name == "tokenizer" || name == "scheduler";
      if (is_part && !contains(below, place)) below.push_back(place);
    }
    return below.empty() ? Paths{folder} : below;
  }

  Paths weights_in(const std::string& folder) const {
    std::set<std::string> weights;
    for (const auto& name : io::weight_files(names_in(paths_, folder), kWeightStems)) {
      if (!name.ends_with(".json")) {
        weights.insert(folder + name);
        continue;
      }
      for (const auto& shard : io::shards_of_index(root_() / (folder + name))) weights.insert(folder + shard);
    }
    return {weights.begin(), weights.end()};
  }

  const Paths& paths_;
  std::function<fs::path()> root_;
  std::function<bool(const Paths&)> have_;
};

/// Tells whether what is on this machine can be opened as it is.
bool is_whole(const hub::Repository& repository, const std::string& folder, HubUse use) {
  if (repository.folder().empty() || !io::is_folder(repository.folder() / folder)) return false;
  auto paths = repository.paths_here();
  for (const auto& path : paths) {
    if (path.starts_with(folder) && path.ends_with(".incomplete")) return false;
  }
  auto here = [&](const Paths& wanted) {
    return std::ranges::all_of(wanted, [&](const std::string& path) { return std::ranges::binary_search(paths, path); });
  };
  return Opening(
             paths, [&] { return repository.folder(); }, here)
      .model(folder, use);
}

/// Tells whether none is missing of the shards that number themselves ("-00001-of-00003").
bool have_all_shards(const std::vector<fs::path>& files) {
  std::map<std::string, std::pair<int, int>> counts;  // here, and in all
  for (const auto& file : files) {
    auto name = file.filename().string();
    auto of = name.find("-of-");
    if (of == name.npos || of < 6) continue;
    auto behind = std::string_view(name).substr(of + 4);
    const int all = take_number<int>(behind).value_or(0);
    if (all <= 0) continue;
    auto& count = counts[(file.parent_path() / (name.substr(0, of - 5) + name.substr(of))).string()];
    count = {count.first + 1, all};
  }
  return std::ranges::all_of(counts, [](const auto& item) { return item.second.first >= item.second.second; });
}

/// A tokenizer beside the weights of a text encoder.
const std::set<std::string> kVocabularies{"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"};

/// Lists what is opened beside the files that match: their settings and vocabularies, and the model's tokenizers, scheduler and picture
/// processor.
Paths companions(const Paths& paths, const Paths& matches) {
  std::set<std::string> folders;
  for (const auto& match : matches) folders.insert(match.substr(0, match.rfind('/') + 1));
  // Without one of its own, the tokenizer is part of the processor.
  const bool has_tokenizer = std::ranges::any_of(paths, [](const std::string& path) { return path.starts_with("tokenizer/"); });
  Paths beside;
  for (const auto& path : paths) {
    auto folder = path.substr(0, path.rfind('/') + 1);
    bool is_processor =
        folder.ends_with("processor/") && (path.ends_with("/preprocessor_config.json") || (!has_tokenizer && is_small(path)));
    bool is_config = path == folder + "config.json" && folders.contains(folder);
    bool is_tokenizer = folder.find("tokenizer") != folder.npos || folder == "google/umt5-xxl/";  // where original folders have it
    bool is_part = (is_tokenizer || folder == "scheduler/") && is_small(path);
    bool is_vocabulary = folders.contains(folder) && kVocabularies.contains(path.substr(folder.size()));
    if (is_config || is_part || is_vocabulary || contains(kIndexNames, path) || is_processor) beside.push_back(path);
  }
  return beside;
}

[[noreturn]] void refuse_weightless(const hub::Repository& repository, const std::string& folder) {
  data_error("models", "'{}' holds no weights that are read here{}; name the file with --model_id_with_origin_paths {}:FILE",
             repository.id(), folder.empty() ? "" : " in " + folder, repository.id());
}

/// Fetches what opening a folder of the model needs.
void fetch_folder(hub::Repository& repository, const std::string& folder, HubUse use) {
  auto paths = repository.paths();
  auto fetch = [&](const Paths& wanted) {
    repository.fetch(wanted);
    return true;
  };
  if (!Opening(
           paths, [&] { return repository.folder(); }, fetch)
           .model(folder, use))
    refuse_weightless(repository, folder);
  Paths inside;
  std::ranges::copy_if(paths, std::back_inserter(inside), [&](const std::string& path) { return path.starts_with(folder); });
  bool is_component = !folder.empty() && std::ranges::any_of(inside, [](const std::string& path) { return io::is_tensor_file(path); });
  if (is_component) repository.fetch(companions(paths, inside));
}

/// The first few tensor files, for a message.
std::string tensor_files(const Paths& paths) {
  Paths found;
  std::ranges::copy_if(paths, std::back_inserter(found), [](const std::string& path) { return io::is_tensor_file(path); });
  if (found.empty()) return "no tensor files";
  if (found.size() <= 5) return join(found);
  return fmt::format("{} and {} more", join(std::span(found).first(5)), found.size() - 5);
}

void fetch_matches(hub::Repository& repository, const std::string& pattern) {
  auto paths = repository.paths();
  Paths matches;
  for (const auto& path : paths) {
    if (fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) matches.push_back(path);
  }
  if (matches.empty())
    data_error("models", "'{}:{}': no file of the model matches this pattern; it has {}", repository.id(), pattern, tensor_files(paths));
  auto wanted = companions(paths, matches);
  wanted.insert(wanted.end(), matches.begin(), matches.end());
  repository.fetch(wanted);
}

}  // namespace

bool leaves_out(HubUse use, const std::string& component) {
  bool is_denoiser = component.starts_with("transformer") || component.starts_with("unet") || component == "dit";
  bool is_small = component.find("tokenizer") != component.npos || component.starts_with("scheduler");
  return (use == HubUse::without_denoiser && is_denoiser) || (use == HubUse::denoiser_alone && !is_denoiser && !is_small);
}

bool is_hub_model(const std::string& name) { return !io::is_there(name) && hub::is_model_id(name) && !io::is_tensor_file(name); }

fs::path hub_folder(const std::string& id, HubUse use) {
  auto repository = hub::in_cache(id, hub::settings_from_environment());
  if (use == HubUse::nothing || (!repository.is_listed() && is_whole(repository, "", use))) return repository.folder();
  fetch_folder(repository, "", use);
  return repository.folder();
}

HubAmount hub_amount(const std::string& id) {
  auto repository = hub::in_cache(id, hub::settings_from_environment());
  HubAmount amount;
  if (!repository.is_listed() && is_whole(repository, "", HubUse::all)) {  // another program brought it
    std::error_code failed;
    for (const auto& path : repository.paths_here())
      amount.num_bytes += static_cast<int64_t>(fs::file_size(repository.folder() / path, failed));
    return amount;
  }
  const auto paths = repository.paths();
  auto count = [&](const Paths& wanted) {
    const auto [num_bytes, num_missing] = repository.amount(wanted);
    amount.num_bytes += num_bytes;
    amount.num_missing += num_missing;
    Paths small;
    std::ranges::copy_if(wanted, std::back_inserter(small), is_small);
    repository.fetch(small);
    return true;
  };
  if (!Opening(
           paths, [&] { return repository.folder(); }, count)
           .model("", HubUse::all))
    refuse_weightless(repository, "");
  return amount;
}

fs::path model_base_folder(const std::string& id) { return hub::settings_from_environment().model_base / id; }

std::vector<fs::path> model_base_files(const std::string& id, const std::string& pattern, HubUse use) {
  auto settings = hub::settings_from_environment();
  auto repository = hub::in_model_base(id, settings);
  auto base = repository.folder();
  bool may_ask = hub::is_model_id(id) && settings.offline.empty() && use != HubUse::nothing;
  if (pattern.empty() || pattern.ends_with('/')) {
    auto folder = pattern == "./" ? "" : pattern;
    if (may_ask && !is_whole(repository, folder, use)) fetch_folder(repository, folder, use);
    return io::is_folder(base / folder) ? std::vector{(base / folder).lexically_normal()} : std::vector<fs::path>();
  }
  auto found = io::glob(base, pattern);
  bool whole = !found.empty() && have_all_shards(found) && io::glob(base, pattern + "*.incomplete").empty();
  if (!whole && may_ask) {
    fetch_matches(repository, pattern);
    found = io::glob(base, pattern);
  }
  return found;
}

}  // namespace burnish::models
