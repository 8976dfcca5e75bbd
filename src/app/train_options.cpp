#include "app/train_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "config/command_line.h"
#include "dist/seat.h"
#include "foreign/import.h"
#include "foreign/program.h"
#include "loras/said_options.h"
#include "train/options/check.h"
#include "train/options/diffsynth_names.h"
#include "train/options/fields.h"
#include "train/options/idle_options.h"
#include "train/options/objective_options.h"

namespace burnish::app {

namespace {

constexpr const char* kDoc =
    "YAML of `accelerate config`, as `accelerate launch` takes it: becomes options, which --config and the command line win over";

/// Holds what of accelerate's file became options.
struct Taken {
  train::TrainOptions options;
  config::Fields fields;
  foreign::Import imported;
};

void take(const std::string& file, Taken& taken, const config::Fields& fields) {
  train::fields(taken.fields, taken.options);
  taken.imported = foreign::import_settings(file, "accelerate", taken.fields).second;
  config::read_toml_text(foreign::to_toml(taken.fields, taken.imported, file), fields);
}

/// Takes back what would decide nothing in this run, and which it would refuse had the user asked for it.
void take_idle_back(Taken& taken, train::TrainOptions& options) {
  auto& origins = taken.imported.origins;
  for (const auto& [option, belongs_to] : train::idle_options(options)) {
    if (!origins.contains(option) || contains(options.given, option)) continue;
    train::reset(options, option);
    auto is_given = [](const auto& name) { return !name.ends_with("(its default)"); };
    if (std::ranges::any_of(origins[option], is_given))
      taken.imported.not_carried.push_back(fmt::format("{}: {} belongs to {}", join(origins[option]), option, belongs_to));
    origins.erase(option);
  }
}

void tell(const std::string& file, const Taken& taken, const config::Fields& fields, bool is_alone) {
  const auto& origins = taken.imported.origins;
  for (const auto& theirs : taken.fields.list()) {
    auto origin = origins.find(theirs.name);
    if (origin == origins.end()) continue;
    auto ours = std::ranges::find(fields.list(), theirs.name, &config::Field::name);
    auto value = config::value_text(*ours), of_file = config::value_text(theirs);
    if (value == of_file) info("{}: {} becomes {} = {}", file, join(origin->second), theirs.name, value);
    else info("{}: {} would become {} = {}, which is {} here as asked for", file, join(origin->second), theirs.name, of_file, value);
  }
  for (const auto& line : taken.imported.different) info("{}: {}", file, line);
  for (const auto& line : taken.imported.not_carried) {
    if (is_alone || !line.starts_with("num_processes")) warn("{}: not carried: {}", file, line);
  }
  std::vector<std::string> names(taken.imported.needless.begin(), taken.imported.needless.end());
  if (!names.empty()) info("{}: nothing to set here: {}", file, join(names));
}

bool names(const Arguments& arguments, const std::string& option) {
  return std::ranges::any_of(arguments, [&](std::string word) {
    word = word.substr(0, word.find('='));
    std::ranges::replace(word, '-', '_');
    return word == "__" + option;
  });
}

/// Has options that only other programs have answered by what they are called here, as their tables say; of several answers the first
/// program's. Those that are known here stay what they are.
void answer_words_of_others(const Arguments& arguments, config::Fields& fields) {
  auto known = fields.names();
  for (const auto& field : fields.list()) known.insert(known.end(), field.aliases.begin(), field.aliases.end());
  for (const auto& option : fields.refused()) known.push_back(option.name);
  std::vector<std::string> words;
  for (auto word : arguments) {
    if (!word.starts_with("--")) continue;
    word = word.substr(2, word.find('=') - 2);
    std::ranges::replace(word, '-', '_');
    if (!contains(known, word) && !contains(words, word)) words.push_back(word);
  }
  if (words.empty()) return;
  for (const auto& program : foreign::programs()) {
    for (const auto& row : program.table().rows) {
      const auto word = row.theirs.substr(row.theirs.rfind('.') + 1);
      if (row.ours.empty() || !contains(words, word) || !contains(known, row.ours)) continue;
      fields.refused(word, fmt::format("it is a word of {}, and is called {} here", program.title, row.ours));
      std::erase(words, word);
    }
  }
}

/// Of two ways to say how long a run is, that of the command line wins over that of a file, as one option does over itself. The max_steps
/// that it takes the place of; 0 for none.
int64_t take_back_steps(train::TrainOptions& options, const Arguments& arguments) {
  bool asks_for_epochs = names(arguments, "num_epochs") && !names(arguments, "max_steps") && options.course.num_epochs > 0;
  return asks_for_epochs ? std::exchange(options.course.max_steps, 0) : 0;
}

}  // namespace

config::Parsed read_train_options(const char* verb, const char* summary, const Arguments& arguments, config::Fields& fields,
                                  train::TrainOptions& options, const std::function<void()>& prepare) {
  std::string file;
  fields.group("Launcher");
  fields.path("config_file", file, kDoc);
  train::DiffSynthNames theirs;
  train::fields(fields, theirs);
  answer_words_of_others(arguments, fields);
  auto read = [&] {
    return config::read_command_line(verb, summary, arguments, fields, [&] {
      if (prepare) prepare();
      train::put(theirs, options);
      take_back_steps(options, arguments);
      train::check(options);
    });
  };
  auto parsed = read();
  if (!parsed.help && !file.empty()) {
    Taken taken;
    take(file, taken, fields);
    parsed = read();
    options.given = parsed.given;
    take_idle_back(taken, options);
    auto seat = dist::find_seat(dist::of_process);
    if (seat.rank == 0) tell(file, taken, fields, seat.size == 1);
  }
  options.given = parsed.given;
  if (parsed.help) return parsed;
  auto lines = train::put(theirs, options);
  if (auto line = train::take_inputs_of_cache(options); !line.empty()) lines.push_back(std::move(line));
  for (auto& line : loras::take_said_options(options.trained.lora_checkpoint, options.given, options.model.own))
    lines.push_back(std::move(line));
  if (!lines.empty() && dist::find_seat(dist::of_process).rank == 0)
    std::ranges::for_each(lines, [](const auto& line) { info("{}", line); });
  if (auto steps = take_back_steps(options, arguments); steps > 0 && dist::find_seat(dist::of_process).rank == 0)
    info("num_epochs {} of the command line takes the place of max_steps {} of the settings file", options.course.num_epochs, steps);
  return parsed;
}

int64_t processes_of(const std::string& config_file) {
  auto tree = foreign::read_settings_file(config_file);
  auto number = [&](const char* name) {
    bool is_there = tree.is_object() && tree.contains(name);
    return static_cast<int64_t>(is_there ? foreign::number_of(tree.at(name)).value_or(1) : 1);
  };
  if (number("num_machines") > 1)
    config_error("launch", "{} is of {} machines; there torchrun, srun or mpirun starts burnish train --config_file {}", config_file,
                 number("num_machines"), config_file);
  return number("num_processes");
}

}  // namespace burnish::app
