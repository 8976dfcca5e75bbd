#include "app/program.h"

#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/failure.h"
#include "app/verbs.h"
#include "app/version.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "memory/failure.h"
#include "memory/heap.h"
#include "studio/program.h"

namespace burnish::app {

namespace {

using studio::kStandby;

struct Verb {
  const char* name;
  void (*run)(const Arguments&);
  const char* summary;
};
constexpr Verb kVerbs[] = {
    {"new", new_run, "ask for what a first run needs, and write its settings"},
    {"train", train, "fine-tune a model: a LoRA, or all of it"},
    {"launch", launch, "train in several processes of this machine"},
    {"plan", plan, "say what a run computes once and what at every step"},
    {"cache", cache, "encode a run's data once, for many runs"},
    {"data", data, "look at a dataset before training: sizes, captions, duplicates"},
    {"caption", caption, "write captions of pictures and clips, by a model that sees them"},
    {"mask", mask, "write masks of what a text names in pictures"},
    {"sample", sample, "draw pictures, with or without LoRAs"},
    {"convert", convert, "bring LoRAs and models into other formats; merge, extract, change ranks"},
    {"inspect", inspect, "say what a checkpoint or LoRA is"},
    {"models", list_models, "list the models on this machine, and bring others from hubs"},
    {"import", import_settings, "turn settings of other programs into those of a training run"},
    {"report", report, "write one page about runs: curves, previews, settings"},
    {"best", best, "say which save of a run is best, and where overfitting began"},
    {"card", card, "write a model card for what a run trained, with weights and pictures, as hubs show it"},
    {"watch", watch, "show a run in the browser while it goes on"},
    {"studio", studio, "make, start, queue and follow runs in the browser"},
    {"mcp", mcp, "let an assistant plan, start and follow runs"},
    {"doctor", doctor, "say what this machine has, what trains on it, and what comes next"},
};

void print_help() {
  print("burnish: fine-tunes large diffusion models\n\n");
  for (const auto& verb : kVerbs) print("  burnish {:<8} {}\n", verb.name, verb.summary);
  print("\n`burnish VERB --help` lists a verb's options.\n");
}

/// docs/flags.md.
void print_markdown() {
  print(
      "# All options\n\nMade by `burnish help --markdown`. Dashes work as well as underscores. Of verbs that take options, every one is a\n"
      "TOML key of the same name: `--config FILE`, or a lone `FILE.toml`, reads them, and options on the command line win.\n"
      "Numbers with a point whose row says no end lie between -1000000000000 and 1000000000000. A `~` at the start of a path is\n"
      "your home folder.\n");
  for (const auto& verb : kVerbs) {
    print("\n");
    verb.run({"--help", "--markdown"});
  }
}

/// Waits, with all libraries loaded, until a line on standard input says what is asked: a list of words in JSON. Nothing where there comes
/// none.
std::vector<std::string> asked_later() {
  std::string line;
  std::getline(std::cin, line);
  const auto words = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!words.is_array()) return {};
  return words.get<std::vector<std::string>>();
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments[0] == kStandby) {
    const auto asked = asked_later();
    if (!asked.empty() && asked[0] != kStandby) run(asked);
    return;
  }
  if (arguments.size() == 2 && arguments[0] == "--help" && arguments[1] == "--names") {
    for (const auto& verb : kVerbs) print("{}\t{}\n", verb.name, verb.summary);
    return;
  }
  if (arguments.size() == 2 && arguments[0] == "help" && arguments[1] == "--markdown") return print_markdown();
  if (arguments.size() >= 2 && arguments[0] == "help") {
    std::vector<std::string> of_verb{arguments[1], "--help"};
    of_verb.insert(of_verb.end(), arguments.begin() + 2, arguments.end());
    return run(of_verb);
  }
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") return print_help();
  if (arguments[0] == "--version") return print("burnish {}\n", version_text());
  std::vector<std::string> names;
  for (const auto& verb : kVerbs) {
    if (arguments[0] == verb.name) return verb.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(verb.name);
  }
  auto near = nearest_name(arguments[0], names);
  config_error("app", "'{}' is not a verb{}; there are {}", arguments[0], near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
               join(names));
}

int fail(const Failure& failure) {
  std::fflush(stdout);  // in one file with the results it comes after them
  tell(stderr, "{}\n", failure.text);
  return static_cast<int>(failure.code);
}

/// What was printed is lost when it cannot be written, and a script must learn of it.
void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) data_error("app", "the output cannot be written: {}", std::strerror(errno));
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  set_up_logging();
  memory::reuse_freed_memory();
  memory::explain_faults_at_limit(kNoMemory, static_cast<int>(Exit::no_fit));
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the size limit is an error of the write, like a full disk
  try {
    run(arguments);
    flush_output();
    return static_cast<int>(Exit::done);
  } catch (const std::exception& error) {
    return fail(failure_of(error));
  }
}

}  // namespace burnish::app
