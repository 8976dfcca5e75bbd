#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/first_run.h"
#include "app/machine.h"
#include "app/start_model.h"
#include "app/verbs.h"
#include "app/what_trains.h"
#include "base/error.h"
#include "base/forks.h"
#include "base/quiet.h"
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

/// Says in a word how a run fits, which cannot be planned where the word is "".
std::string word_of(const Trainable& model, Trains what, const std::string& memory) {
  try {
    switch (how_it_fits(model, what, memory)) {
      case train::HowItFits::as_it_is: return "yes";
      case train::HowItFits::with_options: return "options";
      case train::HowItFits::not_at_all: return "no";
    }
  } catch (const std::exception&) {  // a run that cannot be planned may well train
  }
  return "";
}

/// Finds what trains in this memory, model by model; each is given to `told` as soon as it is known.
Json what_trains(const std::vector<Trainable>& models, const std::string& memory, int64_t at_once,
                 const std::function<void(const Json&)>& told) {
  const auto plan = [&](int64_t i) {
    const auto& model = models[static_cast<size_t>(i)];
    const auto lora = word_of(model, Trains::lora, memory);
    // All weights take more than a LoRA does, whatever else is done.
    return lora + " " + (lora == "no" ? lora : word_of(model, Trains::whole, memory));
  };
  Json rows = Json::array();
  in_forks(std::ssize(models), at_once, plan, [&](int64_t i, const std::string& text) {
    const auto& model = models[static_cast<size_t>(i)];
    const auto space = text.find(' ');
    rows.push_back({{"model", model.name}, {"title", model.title}, {"side", model.side}});
    rows.back()["lora"] = text.substr(0, space);
    rows.back()["whole"] = space == text.npos ? "" : text.substr(space + 1);
    told(rows.back());
  });
  return rows;
}

/// The memory for which is said what trains: what is free on this machine's first GPU, where the command line says none. A number, since
/// plans are made in forks, which must not ask a GPU.
std::string memory_to_plan(const std::string& asked, const Json& gpu) {
  if (!asked.empty() || !gpu.contains("free_bytes")) return asked;
  return fmt::format("{}MiB", gpu.at("free_bytes").at(0).get<int64_t>() >> 20);
}

void print_what_trains(const std::string& memory, int64_t at_once) {
  const auto where = memory.empty() || memory == "cpu" ? "the processor of this machine" : "a card with " + memory + " in this machine";
  print("what trains on {}, by plan: a LoRA of rank 16, or all weights, one picture at a time\n", where);
  const auto models = trainable_models();
  const auto width = std::ranges::max(models, {}, [](const auto& model) { return model.name.size(); }).name.size();
  const auto print_row = [&](const std::string& name, const auto&... cells) { print("  {:<{}}{:>11}  {:<8}{}\n", name, width, cells...); };
  print_row("model", "picture", "LoRA", "all weights");
  what_trains(models, memory, at_once, [&](const Json& row) {
    const auto text = [&](const char* name) { return row.at(name).get<std::string>(); };
    const auto side = row.at("side").get<int64_t>();
    print_row(text("model"), fmt::format("{0}x{0}", side), text("lora"), text("whole"));
    std::fflush(stdout);
  });
  print(
      "  yes: it fits as it is; options: with what `burnish plan --fit` says of it, which costs speed; no: not by plan. Of other models "
      "and "
      "sizes:\n    burnish plan {} --fit\n",
      plan_flags({.name = "MODEL", .side = 1024}, Trains::lora, memory));
}

/// Sentences about what is not here and a run would ask for.
void add_missing(const std::optional<hub::Settings>& settings, Json& advice) {
  if (!settings) return;
  if (settings->huggingface_token.empty() && settings->offline.empty())
    advice.push_back("HF_TOKEN is not set: models that ask for your consent on the hub are not fetched without it");
  if (find_models().empty())
    advice.push_back("no model is here yet: one that settings name by its id on a hub is fetched when training begins");
}

/// The command that comes next, and what it does.
void print_next(const std::string& memory) {
  print("next: burnish new{}  asks for pictures and a model, plans, and writes settings to train with\n",
        memory.empty() ? "" : " --memory " + memory);
  print("      burnish studio  does the same in the browser, and has a demo that needs no model\n");
}

}  // namespace

void doctor(const Arguments& arguments) {
  bool json = false, quick = false;
  std::string memory;
  config::Fields fields;
  fields("memory", memory,
         "say what would train with a card of 16 (GB), 16GiB or 800MiB, or on the cpu; without it, on this machine's GPU");
  fields("quick", quick, "leave out what trains here, which takes some seconds to plan");
  fields("json", json, "print JSON, with numbers in bytes");
  auto parsed = config::read_command_line("doctor", "say what this machine has, what trains on it, and what comes next", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  memory = parse_memory("doctor", memory);
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
  add_missing(settings, report["advice"]);
  const QuietLog quiet;  // what is said of models that train
  const auto to_plan = memory_to_plan(memory, report.at("gpu"));
  const auto at_once = report.at("used").at("threads").get<int64_t>();
  if (json && !quick) report["trains"] = what_trains(trainable_models(), to_plan, at_once, [](const Json&) {});
  if (json) return print("{}\n", report.dump(2));
  for (const auto& [name, value] : report.items()) {
    if (name != "advice") print_value(name, value, 0);
  }
  if (!quick) print_what_trains(to_plan, at_once);
  for (const auto& sentence : report["advice"]) print("note: {}\n", sentence.get<std::string>());
  print_next(memory);
}

}  // namespace burnish::app
