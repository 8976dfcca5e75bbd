#include "app/studio_settings.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "app/caption_options.h"
#include "app/convert_options.h"
#include "app/mask_options.h"
#include "app/sample_options.h"
#include "base/error.h"
#include "base/input_error.h"
#include "config/pages.h"
#include "config/refusal.h"
#include "train/options/check.h"
#include "train/options/fields.h"
#include "train/options/idle_options.h"

namespace burnish::app {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json value_of(const config::Field& field) {
  return std::visit([](const auto* value) { return json(*value); }, field.slot);
}

/// The option of a verb that says where else it writes than where the studio has it write, and where the verb's settings lie in a
/// workspace.
struct PlaceToWrite {
  const char *option, *settings_in;
};
const std::map<std::string, PlaceToWrite> kPlacesToWrite{
    {"train", {"cache_path", "queue"}}, {"sample", {"save_latents", "queue/drawings"}}, {"mask", {"mask_folder", "queue/annotations"}}};

/// Reads settings as a verb does, with nothing looked for on the disk. A config Error for what they cannot be, and for a place to write to
/// that lies outside of the workspace: whoever has the token may fill the workspace, and nothing else.
void read(const std::string& verb, const std::string& settings, const fs::path& workspace, const config::Fields& listed) {
  config::read_toml_text(settings, listed);
  const auto place = kPlacesToWrite.find(verb);
  if (place == kPlacesToWrite.end()) return;
  const auto root = (fs::absolute(workspace) / "").lexically_normal();
  for (const auto& field : listed.list()) {
    if (field.name != place->second.option) continue;
    const auto& value = *std::get<std::string*>(field.slot);
    const auto to = (root / place->second.settings_in / value).lexically_normal();
    if (!value.empty() && !to.string().starts_with(root.string()))
      config_error(verb.c_str(), "{} '{}' lies outside of the workspace, where the studio lets nobody write; name a folder in it",
                   field.name, value);
  }
}

/// Checks settings of a drawing: those of a run take its model and size.
void check_sample(const std::string& settings, const fs::path& workspace) {
  SampleOptions options;
  options.model.own.begin_with_drawing();
  config::Fields listed;
  app::fields(listed, options);
  read("sample", settings, workspace, listed);
  if (options.run.empty() && options.model.model.empty())
    config_error("sample", "model names what draws: a run, or files or the id of a model");
  if (!options.run.empty()) take_run(options);
  check(options);
}

void check_verb(const std::string& verb, const std::string& settings, const fs::path& workspace) {
  if (verb == "sample") return check_sample(settings, workspace);
  CaptionOptions captions;
  MaskOptions masks;
  convert::Options conversion;
  config::Fields listed;
  if (verb == "caption") app::fields(listed, captions);
  else if (verb == "mask") app::fields(listed, masks);
  else app::fields(listed, conversion);
  read(verb, settings, workspace, listed);
  if (verb == "caption") check(captions);
  if (verb == "mask") check(masks);
}

/// Returns what a check throws as [{"option", "sentence"}].
json problems_in(const std::function<void()>& check) {
  try {
    check();
  } catch (const config::Refusal& refusal) {
    return json::parse(config::to_json(refusal.problems())).at("problems");
  } catch (const Error& error) {
    return json::array({{{"option", ""}, {"sentence", without_source(error)}}});
  }
  return json::array();
}

}  // namespace

json form_of(const std::string& settings, bool trusts_settings) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  json form{{"values", json::object()}, {"problems", json::array()}, {"idle", json::array()}};
  form["problems"] = problems_in([&] {
    config::read_toml_text(settings, fields, trusts_settings);
    for (const auto& idle : train::idle_options(options))
      form["idle"].push_back({{"option", idle.option}, {"belongs_to", idle.belongs_to}});
    train::check(options);
  });
  for (const auto& field : fields.list()) form["values"][field.name] = value_of(field);
  return form;
}

json problems_of(const std::string& verb, const std::string& settings, const fs::path& workspace, bool trusts_settings) {
  if (verb != "train") return problems_in([&] { check_verb(verb, settings, workspace); });
  auto problems = form_of(settings, trusts_settings).at("problems");
  if (!problems.empty() || trusts_settings) return problems;
  return problems_in([&] {
    train::TrainOptions options;
    config::Fields listed;
    train::fields(listed, options);
    read(verb, settings, workspace, listed);
  });
}

}  // namespace burnish::app
