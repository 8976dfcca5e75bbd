#include <fmt/core.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "app/announcer.h"
#include "app/named_models.h"
#include "app/together.h"
#include "app/train_options.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "io/files.h"
#include "io/json.h"
#include "io/output_file.h"
#include "report/page.h"
#include "train/options/fields.h"
#include "train/options/meaning.h"
#include "train/options/objective_options.h"
#include "train/run/run.h"

namespace burnish::app {

namespace {

constexpr const char* kTrainAnswer = "interrupted: the run ends after this step, and saves what it trained";
constexpr const char* kCacheAnswer = "interrupted: making the cache ends after this sample, and what is complete is kept";

/// Refuses a folder for a cache in which a file has the name of one of its lists and is another: these are objects of JSON, of which the
/// beginning says enough. All other files of a cache have names by their contents.
void check_cache_folder(const char* verb, const std::filesystem::path& folder) {
  if (folder.empty()) return;
  for (const char* name : {"samples.json", "manifest.json", "hashes.json"}) io::check_replaces(verb, folder / name, io::begins_as_object);
}

/// False when only help was asked for.
bool read_options(const char* verb, const char* summary, const Arguments& arguments, train::TrainOptions& options,
                  const std::function<void()>& prepare = {}) {
  config::Fields fields;
  train::fields(fields, options);
  auto parsed = read_train_options(verb, summary, arguments, fields, options, prepare);
  if (parsed.help) print("{}", parsed.help_text);
  if (!parsed.without_effect.empty()) info("without effect here: {}", join(parsed.without_effect));
  if (parsed.help) return false;
  check_models(verb, options.model.model, "go on training it with --model MODEL --lora_checkpoint {}");
  check_cache_folder(verb, train::cache_folder(options));
  return true;
}

/// The page about a run that has ended. What was trained is saved: that the page cannot be written does not change how the run ended.
void write_report(const std::string& run) {
  try {
    info("{} shows the run", report::write_report({.runs = {run}, .output = ""}).string());
  } catch (const Error& error) {
    warn("report.html was not written: {}", error.what());
  }
}

}  // namespace

void cache(const Arguments& arguments) {
  train::TrainOptions options;
  auto summary = "encode the data of a training run into a cache; takes the options of train";
  auto prepare = [&] {
    if (options.cache.path.empty()) config_error("cache", "name the folder to make with --cache_path");
    options.task = train::objective_of(options).word + ":data_process";
  };
  if (!read_options("cache", summary, arguments, options, prepare)) return;
  prepare();
  run_together("cache", options, kCacheAnswer, [&](const auto& world, auto&) { train::make_cache(options, world); });
}

void train(const Arguments& arguments) {
  train::TrainOptions options;
  if (!read_options("train", "fine-tune a diffusion model (a LoRA, or all of it)", arguments, options)) return;
  if (!train::trains(options))
    return run_together("cache", options, kCacheAnswer, [&](const auto& world, auto&) { train::make_cache(options, world); });
  run_together("train", options, kTrainAnswer, [&](const auto& world, auto& status) {
    status.listen(announcer_of(options.tell));
    auto report = [&] {
      if (options.output.logs.report && world.is_first()) write_report(options.output_path);
    };
    try {
      train::train(options, world, &status);
    } catch (const Error& error) {
      // What was trained until Ctrl-C is shown as well; a run without a step has no curves.
      if (error.code() != Exit::interrupted || !io::is_there(std::filesystem::path(options.output_path) / "log.jsonl")) throw;
      status.end(Exit::interrupted, without_source(error));
      report();
      throw;
    }
    status.end(Exit::done);
    report();
  });
}

}  // namespace burnish::app
