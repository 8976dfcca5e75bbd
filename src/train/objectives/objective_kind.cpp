#include "train/objectives/objective_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "train/subject/option_rows.h"

namespace burnish::train {

namespace {

/// Lists the columns of all objectives: "of dpo: rejected_image, of ...".
std::string all_columns() {
  std::vector<std::string> texts;
  for (auto* kind : kObjectives) {
    if (!kind().columns.empty()) texts.push_back(fmt::format("of {}: {}", kind().word, join(kind().columns)));
  }
  return join(texts);
}

bool names_file(const std::string& option) {
  return std::ranges::any_of(kObjectives, [&](auto* kind) { return contains(kind().files, option); });
}

}  // namespace

namespace plain {
std::vector<Input> inputs(const models::OptionValues& /*own*/) { return {}; }
bool needs_pictures(const models::OptionValues& /*own*/) { return true; }
std::vector<Share> shares(const models::OptionValues& /*own*/) { return {Share()}; }
void check(const RunForObjective& /*run*/) {}
std::string fingerprint(const models::OptionValues& /*own*/) { return ""; }
std::vector<Companion> companions(const models::OptionValues& /*own*/, bool /*trains_whole*/) { return {}; }
DrawnBy drawn_by(const models::OptionValues& /*own*/) { return {}; }
}  // namespace plain

std::vector<models::Option> objective_options() {
  std::vector<models::Option> all;
  for (auto* kind : kObjectives) {
    for (const auto& option : kind().options) {
      if (std::ranges::find(all, option.name, &models::Option::name) == all.end()) all.push_back(option);
    }
  }
  return all;
}

models::OptionValues default_objective_options() { return models::OptionValues(objective_options()); }

std::vector<std::string> objectives_with(const std::string& option) {
  std::vector<std::string> words;
  for (auto* kind : kObjectives) {
    if (std::ranges::find(kind().options, option, &models::Option::name) != kind().options.end()) words.push_back(kind().word);
  }
  return words;
}

std::string given_options(const std::vector<models::Option>& options, const models::OptionValues& own) {
  std::vector<std::string> given;
  for (const auto& option : options) {
    if (own.at(option.name) == option.otherwise) continue;
    given.push_back(std::visit([&](const auto& value) { return fmt::format("{} {}", option.name, value); }, own.at(option.name)));
  }
  return join(given);
}

std::vector<std::string> objective_words() {
  std::vector<std::string> words;
  for (auto* kind : kObjectives) words.push_back(kind().word);
  return words;
}

std::vector<std::string> columns_of_models() {
  auto columns = models::reference_columns();
  for (const auto& input : models::extra_inputs()) columns.push_back(input.name);
  return columns;
}

void objective_fields(config::Fields& f, std::string& task, std::string& extra_inputs, models::OptionValues& own) {
  f("task", task,
    fmt::format("the objective: {}; with :data_process, which makes a cache in output_path, or :train, which trains from the one in "
                "dataset_base_path",
                join(objective_words())),
    {"objective"})
      .known(objective_words());
  f("extra_inputs", extra_inputs,
    fmt::format("comma list of further columns, which the model then reads ({}); and, read anyway, {}", join(columns_of_models()),
                all_columns()));
  for (const auto& option : objective_options()) {
    auto help = fmt::format("of {}: {}", join(objectives_with(option.name), " and "), option.help);
    auto tasks = objectives_with(option.name);
    f.group("Task " + tasks.front());
    auto row = names_file(option.name) ? f.path(option.name, std::get<std::string>(own.at(option.name)), help)
                                       : option_row(f, option, own.at(option.name), help);
    row.counts_when((tasks.size() > 1 ? "the tasks " : "task ") + join(tasks, " and "),
                    [&task, tasks] { return contains(tasks, task.substr(0, task.find(':'))); });
  }
  for (auto* kind : kObjectives) {
    for (const auto& command : kind().commands) f.row(command).acts_outside();
    for (const auto& condition : kind().conditions)
      f.row(condition.option).counts_when(condition.belongs_to, [&own, counts = condition.counts] { return counts(own); });
  }
}

InputTable input_table(const models::OptionValues& own) {
  std::vector<std::string> pictures;
  std::vector<Input> further;
  std::set<std::string> drawn;
  for (auto* kind : kObjectives) {
    std::ranges::copy(kind().pictures, std::back_inserter(pictures));
    std::ranges::move(kind().inputs(own), std::back_inserter(further));
    for (const auto& value : kind().drawn) drawn.insert(value.name);
  }
  return {models::extra_inputs(), pictures, std::move(further), drawn};
}

}  // namespace burnish::train
