#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/start_model.h"
#include "app/verbs.h"
#include "base/input_error.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "foreign/model_folders.h"
#include "hub/repository.h"
#include "io/files.h"
#include "models/files/hub_amount.h"
#include "models/registry.h"
#include "tagging/tagger.h"

namespace burnish::app {

namespace {

using nlohmann::json;

/// Returns what a run opens of a model on a hub.
json amount_of(const std::string& name) {
  const auto* published = models::find_published(name);
  const auto id = published != nullptr && !published->id.empty() ? std::string(published->id) : tagging::id_of(name);
  if (!models::is_hub_model(id))
    config_error("models", "'{}' is no id of a model on a hub (author/model); what a file or folder is says `burnish inspect {}`", name,
                 name);
  const auto [num_bytes, num_missing] = models::hub_amount(id);
  return {{"name", id}, {"title", published != nullptr ? published->title : ""}, {"bytes", num_bytes}, {"missing_bytes", num_missing}};
}

/// Says how a model lies here: as a folder, a file, or in the cache of a hub.
const char* kind_of(const std::string& name) {
  if (!io::is_there(name) && !io::is_folder(name)) return "hub";
  return io::is_folder(name) ? "folder" : "file";
}

json models_here() {
  auto here = json::array();
  for (const auto& model : find_models())
    here.push_back({{"name", model.names.front()},
                    {"title", model.title},
                    {"family", model.family},
                    {"denoiser", model.denoiser},
                    {"bytes", model.num_bytes},
                    {"kind", kind_of(model.names.front())},
                    {"program", foreign::program_of(model.names.front())}});
  return here;
}

json json_of(const std::vector<Annotator>& annotators) {
  auto list = json::array();
  for (const auto& one : annotators) list.push_back({{"name", one.name}, {"title", one.title}, {"bytes", one.num_bytes}});
  return list;
}

json published_ids() {
  auto list = json::array();
  for (const auto* family : models::all_families()) {
    for (const auto& variant : family->variants) {
      if (!variant.id.empty())
        list.push_back({{"name", variant.name}, {"id", variant.id}, {"title", variant.title}, {"family", family->name}});
    }
  }
  return list;
}

std::string size_of(const json& bytes) { return human_bytes(bytes.get<double>()); }

void print_models(const json& models) {
  size_t widest = 0;
  for (const auto& model : models) widest = std::max(widest, model.at("name").get_ref<const std::string&>().size());
  for (const auto& model : models)
    print("{:<{}}  {:>10}  {}\n", model.at("name").get<std::string>(), widest, size_of(model.at("bytes")),
          model.at("title").get<std::string>());
}

void print_here(const json& here) {
  if (here.empty())
    return print(
        "no model in this folder, in models/ below it, or in the cache of the hub; `burnish models AUTHOR/MODEL --fetch` brings one\n");
  print_models(here);
}

void print_amount(const json& amount) {
  const auto name = amount.at("name").get<std::string>();
  if (amount.at("missing_bytes") == 0) return print("{}: {}, all on this machine\n", name, size_of(amount.at("bytes")));
  print("{}: {}, of which {} are not on this machine; --fetch brings them\n", name, size_of(amount.at("bytes")),
        size_of(amount.at("missing_bytes")));
}

void remove_models(const std::vector<std::string>& names, bool as_json) {
  const auto settings = hub::settings_from_environment();
  for (const auto& name : names) hub::remove_from_cache(name, settings);
  if (as_json) return print("{}\n", json{{"removed", names}}.dump(2));
  print("{} deleted\n", join(names));
}

}  // namespace

void list_models(const Arguments& arguments) {
  std::vector<std::string> names;
  bool fetch = false, remove = false, as_json = false;
  config::Fields fields;
  fields.group("Models");
  fields.positional("model", names,
                    "ids of models on a hub, or names of published ones: how much a run opens of each, and what of it is here");
  fields("fetch", fetch, "bring what is missing into the cache of the hub");
  fields("remove", remove, "delete what is of them in the cache of the hub");
  fields("json", as_json, "print JSON, with numbers in bytes");
  auto parsed = config::read_command_line("models", "list the models on this machine, and bring others from hubs", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  for (const auto& [is_asked, verb] : {std::pair(fetch, "fetch"), std::pair(remove, "remove")}) {
    if (is_asked && names.empty())
      config_error("models", "{} needs the id of a model; for example: burnish models author/model --{}", verb, verb);
  }
  if (fetch && remove) config_error("models", "fetch and remove contradict each other; give one of them");
  if (remove) return remove_models(names, as_json);
  if (names.empty()) {
    const auto here = models_here();
    const auto annotators = find_annotators();
    const auto caption = json_of(annotators.caption), mask = json_of(annotators.mask);
    if (as_json) return print("{}\n", json{{"here", here}, {"published", published_ids()}, {"caption", caption}, {"mask", mask}}.dump(2));
    print_here(here);
    if (!caption.empty()) print("\nfor `burnish caption`\n");
    print_models(caption);
    if (!mask.empty()) print("\nfor `burnish mask`\n");
    return print_models(mask);
  }
  auto amounts = json::array();
  for (const auto& name : names) {
    auto amount = amount_of(name);
    if (fetch && amount.at("missing_bytes") != 0) {
      models::hub_folder(amount.at("name").get<std::string>(), models::HubUse::all);
      amount["missing_bytes"] = 0;
    }
    if (!as_json) print_amount(amount);
    amounts.push_back(std::move(amount));
  }
  if (as_json) print("{}\n", json{{"models", amounts}}.dump(2));
}

}  // namespace burnish::app
