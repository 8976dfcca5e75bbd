#include "app/start_model.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "captioning/florence2.h"
#include "captioning/language_model.h"
#include "foreign/model_folders.h"
#include "hub/repository.h"
#include "io/files.h"
#include "io/tensor_file.h"
#include "masking/clip_seg.h"
#include "models/files/pipeline_index.h"
#include "tagging/tagger.h"

namespace burnish::app {

namespace fs = std::filesystem;

namespace {

/// The option that names the tokenizer which a text encoder lacks; "" where all are there.
std::string missing_tokenizer(const models::Model& model) {
  for (const auto& component : model.components().list()) {
    const auto* recipe = model.components().find(component.name);
    if (recipe == nullptr || !recipe->tokenizer || recipe->source.entry->is_sizes) continue;
    try {
      recipe->tokenizer->folder();
    } catch (const Error& error) {
      const std::string sentence = error.what();
      for (const char* option : {"tokenizer_2_path", "tokenizer_path"}) {
        if (sentence.ends_with(std::string("--") + option)) return option;
      }
      throw;  // one that is named, and cannot be had
    }
  }
  return "";
}

StartModel open_here(const std::vector<std::string>& names, const models::ModelOptions& options) {
  const auto files = models::open_model_files({names, "", "", models::HubUse::nothing});
  const auto model = models::open_model(files, options);
  std::string denoiser;
  for (const auto& expert : model->experts_there()) {
    if (denoiser.empty()) denoiser = expert.component;
    if (!model->components().has(expert.component))
      data_error("new", "{} holds no denoiser, which is what trains; name a whole model", join(names));
  }
  StartModel start{.names = names, .sizes = names, .title = model->names().variant, .family = model->names().family, .denoiser = denoiser};
  for (const auto& entry : files.entries) start.num_bytes += entry.tensors && !entry.is_sizes ? entry.tensors->num_bytes() : 0;
  start.missing_tokenizer = missing_tokenizer(*model);
  const auto* published = models::find_published(names.front());
  if (published == nullptr) published = models::published_of_kind(*model);
  if (published != nullptr) start.drawn = published->drawn;
  return start;
}

StartModel not_here(const models::Variant& published, const std::string& id) {
  return {.names = {id},
          .sizes = {std::string(published.name)},
          .title = std::string(published.title),
          .drawn = published.drawn,
          .is_here = false};
}

bool is_pipeline(const fs::path& folder) { return models::index_in(folder).has_value(); }
bool is_pipeline_or_model(const fs::path& folder) { return is_pipeline(folder) || io::is_there(folder / "config.json"); }

using IsModel = bool (*)(const fs::path& folder);

void add_folder(const fs::path& folder, IsModel is_model, std::vector<std::string>& names) {
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const auto path = it->path().is_absolute() ? it->path() : it->path().lexically_relative(".");
    std::error_code unreachable;
    if (is_model(it->path()) || (it->is_regular_file(unreachable) && io::is_tensor_file(path))) names.push_back(path.string());
  }
}

void add_folders(const fs::path& folder, IsModel is_model, std::vector<std::string>& names) {
  add_folder(folder, is_model, names);
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (io::is_folder(it->path())) add_folder(it->path(), is_model, names);
  }
}

/// Returns what --model may name in the current folder, in `models` below it, in folders of other programs, and in the cache of the hub.
std::vector<std::string> names_there(IsModel is_model) {
  std::vector<std::string> names;
  add_folder(".", is_model, names);
  add_folders("models", is_model, names);
  std::ranges::sort(names);
  for (const auto& [program, folder] : foreign::folders_of_programs()) {
    std::vector<std::string> theirs;
    add_folders(folder, is_model, theirs);
    std::ranges::sort(theirs);
    std::ranges::move(theirs, std::back_inserter(names));
  }
  for (auto& id : hub::ids_in_cache(hub::settings_from_environment())) names.push_back(std::move(id));
  return names;
}

template <class Model>
void add_if(const models::ModelFiles& files, const std::string& name, const std::string& title, std::vector<Annotator>& found) {
  try {
    const models::ModelOptions options;
    auto model = [&] {
      if constexpr (std::is_constructible_v<Model, const models::ModelFiles&, const models::ModelOptions&>) return Model(files, options);
      else return Model(files, options, "");
    }();
    Annotator one{.name = name, .title = title};
    for (const auto& component : model.components().list()) one.num_bytes += component.num_bytes;
    if constexpr (requires { model.name(); }) one.title = model.name();
    found.push_back(std::move(one));
  } catch (const std::exception&) {  // another model, or a part of one
  }
}

}  // namespace

StartModel choose_model(const std::vector<std::string>& names, const models::ModelOptions& options) {
  if (names.empty() || names.front().empty()) config_error("new", "name a model: its folder or file, an id on a hub, or a published name");
  const auto* published = names.size() == 1 && !io::is_there(names.front()) ? models::find_published(names.front()) : nullptr;
  const auto first = published != nullptr && !published->id.empty() ? std::string(published->id) : names.front();
  try {
    return names.size() == 1 ? open_here({first}, options) : open_here(names, options);
  } catch (const Error& error) {
    if (published != nullptr) return not_here(*published, first);
    if (names.size() > 1 || !models::is_hub_model(first)) throw;
    data_error(
        "new",
        "'{}' is not on this machine, and of its sizes nothing is known; `burnish plan --model {} --height 1024 --width 1024` fetches "
        "it, or name a published model (`burnish convert --help` lists their names)",
        first, first);
  }
}

std::vector<StartModel> find_models() {
  const auto names = names_there(&is_pipeline);
  models::ModelOptions options;
  options.own = models::default_options();
  std::vector<StartModel> found;
  for (const auto& name : names) {
    try {
      found.push_back(open_here({name}, options));
    } catch (const std::exception&) {  // a LoRA, a part of a model, a file that is damaged
    }
  }
  return found;
}

Annotators find_annotators() {
  Annotators found;
  auto is_part_of = [](const std::string& name, const std::vector<Annotator>& found) {
    return std::ranges::any_of(found, [&](const auto& one) { return fs::path(name).parent_path() == fs::path(one.name); });
  };
  for (const auto& name : names_there(&is_pipeline_or_model)) {
    if (is_part_of(name, found.caption)) continue;  // weights that were found with their folder
    try {
      const auto files = models::open_model_files({{name}, "", "", models::HubUse::nothing});
      add_if<captioning::LanguageModel>(files, name, "", found.caption);
      add_if<captioning::Florence2>(files, name, "", found.caption);
      add_if<tagging::Tagger>(files, name, "", found.caption);
      add_if<masking::ClipSeg>(files, name, "CLIPSeg", found.mask);
    } catch (const std::exception&) {  // a file that is damaged
    }
  }
  return found;
}

}  // namespace burnish::app
