#include "app/program.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "app/verbs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "config/problems.h"
#include "memory/failure.h"
#include "memory/heap.h"

namespace burnish::app {

namespace {

struct Verb {
  const char* name;
  void (*run)(const Arguments&);
  const char* summary;
};
constexpr Verb kVerbs[] = {
    {"train", train, "fine-tune a model: a LoRA, or all of it"},
    {"launch", launch, "train in several processes of this machine"},
    {"plan", plan, "say what a run computes once and what at every step"},
    {"cache", cache, "encode a run's data once, for many runs"},
    {"data", data, "look at a dataset before training: sizes, captions, duplicates"},
    {"sample", sample, "draw pictures, with or without LoRAs"},
    {"convert", convert, "bring LoRAs and models into other formats; merge, extract, change ranks"},
    {"inspect", inspect, "say what a checkpoint or LoRA is"},
    {"import", import_settings, "turn settings of other programs into those of a training run"},
    {"report", report, "write one page about runs: curves, previews, settings"},
    {"watch", watch, "show a run in the browser while it goes on"},
    {"doctor", doctor, "say what this machine has and what a run would use"},
};

void print_help() {
  fmt::print("burnish: fine-tunes large diffusion models\n\n");
  for (const auto& verb : kVerbs) fmt::print("  burnish {:<8} {}\n", verb.name, verb.summary);
  fmt::print("\n`burnish VERB --help` lists a verb's options.\n");
}

/// docs/flags.md.
void print_markdown() {
  fmt::print(
      "# All options\n\nMade by `burnish help --markdown`. Dashes work as well as underscores. Of verbs that take options, every one is a\n"
      "TOML key of the same name: `--config FILE`, or a lone `FILE.toml`, reads them, and options on the command line win.\n");
  for (const auto& verb : kVerbs) {
    fmt::print("\n");
    verb.run({"--help", "--markdown"});
  }
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "--help" && arguments[1] == "--names") {
    for (const auto& verb : kVerbs) fmt::print("{}\t{}\n", verb.name, verb.summary);
    return;
  }
  if (arguments.size() == 2 && arguments[0] == "help" && arguments[1] == "--markdown") return print_markdown();
  if (arguments.size() >= 2 && arguments[0] == "help") {
    std::vector<std::string> of_verb{arguments[1], "--help"};
    of_verb.insert(of_verb.end(), arguments.begin() + 2, arguments.end());
    return run(of_verb);
  }
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") return print_help();
  if (arguments[0] == "--version") return fmt::print("burnish 0.1.0\n");
  std::vector<std::string> names;
  for (const auto& verb : kVerbs) {
    if (arguments[0] == verb.name) return verb.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(verb.name);
  }
  auto near = nearest_name(arguments[0], names);
  config_error("app", "'{}' is not a verb{}; there are {}", arguments[0], near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
               join(names));
}

constexpr const char* kNoMemory =
    "[app] out of memory; use a smaller batch_size or use_gradient_checkpointing, or raise the limit (ulimit -v)";

int fail(const char* text, Exit code) {
  std::fflush(stdout);  // in one file with the results it comes after them
  fmt::print(stderr, "{}\n", text);
  return static_cast<int>(code);
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
  } catch (const config::Refusal& refusal) {
    return fail(refusal.lines().c_str(), refusal.code());
  } catch (const Error& error) {
    return fail(error.what(), error.code());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0)
      return fail(fmt::format("[app] the output cannot be written: {}", error.code().message()).c_str(), Exit::data);
    if (error.code() == std::errc::resource_unavailable_try_again)
      return fail("[app] no further thread can be started: memory or the number of processes is limited (ulimit -v, ulimit -u)",
                  Exit::no_fit);
    return fail(fmt::format("[app] internal error, please report it: {}", error.what()).c_str(), Exit::internal);
  } catch (const c10::OutOfMemoryError& error) {
    return fail("[app] out of device memory; use a smaller batch_size or use_gradient_checkpointing", Exit::no_fit);
  } catch (const std::exception& error) {
    if (memory::is_out_of_memory(error)) return fail(kNoMemory, Exit::no_fit);
    return fail(fmt::format("[app] internal error, please report it: {}", error.what()).c_str(), Exit::internal);
  }
}

}  // namespace burnish::app
