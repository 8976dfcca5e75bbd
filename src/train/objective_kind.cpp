#include "train/objective_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "models/family.h"

namespace burnish::train {

namespace {

std::string word_of(const TrainOptions& o) { return o.task.substr(0, o.task.find(':')); }

std::vector<std::string> all_words() {
  std::vector<std::string> words;
  for (auto* kind : kObjectives) words.push_back(kind().word);
  return words;
}

/// "of dpo: rejected_image, of ...".
std::string all_columns() {
  std::vector<std::string> texts;
  for (auto* kind : kObjectives) {
    if (!kind().columns.empty()) texts.push_back(fmt::format("of {}: {}", kind().word, join(kind().columns)));
  }
  return join(texts);
}

/// Those of all objectives, each once.
std::vector<models::Option> all_options() {
  std::vector<models::Option> all;
  for (auto* kind : kObjectives) {
    for (const auto& option : kind().options) {
      if (std::ranges::find(all, option.name, &models::Option::name) == all.end()) all.push_back(option);
    }
  }
  return all;
}

/// What inputs of DiffSynth-Studio are for, by a part of their names.
constexpr std::pair<const char*, const char*> kConditions[] = {
    {"nexus_gen_", "models that edit a picture (Nexus-Gen)"},
    {"insert_anything_", "models that put a thing into a picture (Insert-Anything)"},
    {"template_", "plug-in models"},
    {"video", "videos"},
    {"audio", "sound"},
};

void refuse_condition(const std::string& name) {
  for (const auto& [part, what] : kConditions) {
    if (name.find(part) != name.npos) config_error("train", "extra_inputs '{}' is for {}, and no model here reads it", name, what);
  }
}

/// The columns that models read, references first.
std::vector<std::string> model_columns() {
  auto columns = models::reference_columns();
  for (const auto& input : models::extra_inputs()) columns.emplace_back(input.column);
  return columns;
}

void check_extra_inputs(const TrainOptions& o) {
  const auto& kind = objective_of(o);
  for (const auto& name : split_list(o.extra_inputs)) {
    if (contains(kind.columns, name) || contains(model_columns(), name)) continue;
    refuse_condition(name);
    auto known = kind.columns;
    std::ranges::copy(model_columns(), std::back_inserter(known));
    config_error("train", "extra_inputs '{}': task {} reads a picture and a caption, and of further columns only {}", name, kind.word,
                 join(known));
  }
  auto column = reference_column(o);
  if (column.empty() && !extra_columns(o).empty()) column = *extra_columns(o).begin();
  if (column.empty() || !encodes(o)) return;
  if (std::ranges::any_of(datasets_of(o), &DatasetChoice::random_crop))
    config_error("train", "random_crop cuts a picture elsewhere than its reference pictures (extra_inputs {}); take one of them out",
                 column);
}

}  // namespace

void objective_fields(config::Fields& f, TrainOptions& o) {
  f("task", o.task,
    fmt::format("the objective: {}; with :data_process, which makes a cache in output_path, or :train, which trains from the one in "
                "dataset_base_path",
                join(all_words())),
    {"objective"});
  f("extra_inputs", o.extra_inputs,
    fmt::format("comma list of further columns, which the model then reads ({}); and, read anyway, {}", join(model_columns()),
                all_columns()));
  for (const auto& option : all_options()) {
    auto help = fmt::format("of {}: {}", join(objectives_with(option.name), " and "), option.help);
    std::visit([&](auto& value) { f(option.name, value, help); }, o.objective.at(option.name));
  }
}

models::OptionValues default_objective_options() {
  models::OptionValues values;
  for (const auto& option : all_options()) values[option.name] = option.otherwise;
  return values;
}

std::vector<std::string> objectives_with(const std::string& option) {
  std::vector<std::string> words;
  for (auto* kind : kObjectives) {
    if (std::ranges::find(kind().options, option, &models::Option::name) != kind().options.end()) words.push_back(kind().word);
  }
  return words;
}

std::string reference_column(const TrainOptions& o) {
  auto known = models::reference_columns();
  for (const auto& name : split_list(o.extra_inputs)) {
    if (contains(known, name)) return name;
  }
  return "";
}

std::set<std::string> extra_columns(const TrainOptions& o) {
  std::set<std::string> columns;
  auto known = models::extra_inputs();
  for (const auto& name : split_list(o.extra_inputs)) {
    if (models::find_extra_input(known, name) != nullptr) columns.insert(name);
  }
  return columns;
}

const ObjectiveKind& objective_of(const TrainOptions& o) {
  auto word = word_of(o), stage = o.task.substr(word.size());
  if (stage.empty() || stage == ":data_process" || stage == ":train") {
    for (auto* kind : kObjectives) {
      if (kind().word == word) return kind();
    }
  }
  config_error("train", "task '{}' is not known; choose one of {}, alone or with :data_process or :train", o.task, join(all_words()));
}

bool is_sft(const TrainOptions& o) { return &objective_of(o) == &sft(); }

bool is_whole(const TrainOptions& o) { return o.task == word_of(o); }

void check_objective(const TrainOptions& o) {
  check_extra_inputs(o);
  for (const auto& option : all_options()) {
    auto wrong = option.why_wrong ? option.why_wrong(option.name, o.objective.at(option.name)) : "";
    if (!wrong.empty()) config_error("train", "{}", wrong);
  }
  if (const auto& kind = objective_of(o); kind.check != nullptr) kind.check(o);
}

std::string objective_fingerprint(const TrainOptions& o) {
  const auto& kind = objective_of(o);
  if (is_sft(o)) return "";
  auto own = kind.fingerprint != nullptr ? kind.fingerprint(o.objective) : "";
  return ", " + kind.word + (own.empty() ? "" : " " + own);
}

}  // namespace burnish::train
