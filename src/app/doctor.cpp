#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/machine.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "hub/settings.h"

namespace burnish::app {

namespace {

using Json = nlohmann::ordered_json;

Json describe(const hub::Settings& settings) {
  auto source = [&](hub::Source otherwise) {
    return settings.source.value_or(otherwise) == hub::Source::huggingface ? "Hugging Face" : "ModelScope";
  };
  auto offline = settings.offline.empty() ? "they are fetched when they are not here" : settings.offline + " is set: nothing is fetched";
  return {{"models", offline},
          {"of --model ID", source(hub::Source::huggingface)},
          {"of --model_id_with_origin_paths", source(hub::Source::modelscope)},
          {"HF_ENDPOINT", settings.huggingface_endpoint},
          {"HF_TOKEN", settings.huggingface_token.empty() ? "not set" : "set"},
          {"MODELSCOPE_ENDPOINT", settings.modelscope_endpoint},
          {"MODELSCOPE_API_TOKEN", settings.modelscope_token.empty() ? "not set" : "set"},
          {"seconds without a byte", settings.timeout}};
}

Json describe_places(const std::optional<hub::Settings>& known) {
  Json places;
  places["this folder"] = describe_place(".");
  if (!known) return places;
  const auto& settings = *known;
  places["models of DiffSynth-Studio's options"] = describe_place(settings.model_base);
  places["cache of Hugging Face"] = describe_place(settings.huggingface_cache);
  places["cache of ModelScope"] = describe_place(settings.modelscope_cache);
  return places;
}

/// A list in one line, an object indented below its name.
void print_value(const std::string& name, const Json& value, int depth) {
  auto indent = std::string(static_cast<size_t>(depth) * 2, ' ');
  if (value.is_object()) {
    print("{}{}\n", indent, name);
    for (const auto& [key, inner] : value.items()) print_value(key, inner, depth + 1);
    return;
  }
  std::vector<std::string> texts;
  for (const auto& item : value.is_array() ? value : Json::array({value})) {
    bool is_bytes = name.ends_with("bytes") && item.is_number();
    if (is_bytes) texts.push_back(human_bytes(item.get<double>()));
    else texts.push_back(item.is_string() ? item.get<std::string>() : item.is_boolean() ? (item.get<bool>() ? "yes" : "no") : item.dump());
  }
  auto shown = name.ends_with("_bytes") ? name.substr(0, name.size() - 6) : name;
  print("{}{}: {}\n", indent, shown, texts.empty() ? "none" : join(texts));
}

}  // namespace

void doctor(const Arguments& arguments) {
  bool json = false;
  config::Fields fields;
  fields("json", json, "print JSON, with numbers in bytes");
  auto parsed = config::read_command_line("doctor", "say what this machine has and what a run would use of it", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  std::optional<hub::Settings> settings;
  std::string wrong;
  try {
    settings = hub::settings_from_environment();
  } catch (const Error& error) {
    wrong = without_source(error);
  }
  Json report = describe_machine();
  report["files"] = describe_places(settings);
  if (settings) report["hub"] = describe(*settings);
  report["advice"] = advice(report);
  if (!settings) report["advice"].push_back(wrong + "; until then every run that names a model on a hub ends with this sentence");
  if (json) return print("{}\n", report.dump(2));
  for (const auto& [name, value] : report.items()) {
    if (name != "advice") print_value(name, value, 0);
  }
  for (const auto& sentence : report["advice"]) print("note: {}\n", sentence.get<std::string>());
}

}  // namespace burnish::app
