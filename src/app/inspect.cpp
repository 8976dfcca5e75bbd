#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "adapters/adapter_file.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "checkpoint/state.h"
#include "config/command_line.h"
#include "convert/compare.h"
#include "io/files.h"
#include "models/family.h"
#include "models/pipeline_index.h"
#include "models/refused_files.h"

namespace burnish::app {

namespace {

void print_adapter(const std::map<std::string, int64_t>& kinds) {
  std::vector<std::string> texts;
  for (const auto& [kind, count] : kinds) texts.push_back(fmt::format("{} on {} layer{}", kind, count, count == 1 ? "" : "s"));
  print("  adapter: {}\n", join(texts));
}

void print_entry(const models::ModelEntry& entry) {
  print("{}\n", entry.label);
  if (!entry.tensors) return print("  config.json without weights\n");
  const auto& source = *entry.tensors;
  if (auto step = checkpoint::step_of_state(source))
    return print("  state of a burnish run at step {}, to go on with by --resume\n", *step);
  std::string kind;
  const auto* other = models::look_alike_in(entry);
  if (other != nullptr) kind = fmt::format("{} transformer, which is not trained here", other->name);
  for (const auto* family : models::all_families()) {
    if (other != nullptr) break;
    // Families share parts; the one whose denoiser is in the file says what it is.
    bool is_its_own = family->recognises({{entry}, {}});
    if (kind.empty() || is_its_own) kind = family->describe(entry);
    if (is_its_own) break;
  }
  if (auto kinds = adapters::kinds_in(source); !kinds.empty()) print_adapter(kinds);
  else print("  {}\n", kind.empty() ? "no model known here" : kind);

  if (auto packing = models::unread_packing(entry); !packing.empty()) print("  packed as {}, which is not read here\n", packing);

  int64_t parameters = 0;
  std::map<std::string, int64_t> by_dtype;
  for (const auto& name : source.names()) {
    const auto& info = source.info(name);
    int64_t count = 1;
    for (auto size : info.shape) count *= size;
    parameters += count;
    by_dtype[io::numbers_name(info)] += count;
  }
  std::vector<std::string> dtypes;
  for (const auto& [name, count] : by_dtype) dtypes.push_back(name);
  print("  {} tensors, {:.3f} million values, {}, {}\n", source.names().size(), static_cast<double>(parameters) / 1e6, join(dtypes),
        human_bytes(static_cast<double>(source.num_bytes())));
  for (const auto& [key, value] : source.metadata()) print("  {}: {}\n", key, value.size() > 200 ? value.substr(0, 200) + "..." : value);
}

/// The files of a folder that holds no model, a run's say, each of which is something by itself; else the path.
std::vector<std::string> files_in(const std::string& path) {
  auto is_model = [&](const char* mark) { return io::is_there(std::filesystem::path(path) / mark); };
  if (!io::is_folder(path) || models::index_in(path) || is_model("config.json") || is_model("adapter_config.json")) return {path};
  std::vector<std::string> names, files;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(path, unreadable)) names.push_back(entry.path().filename().string());
  for (const auto& name : io::weight_files(names, models::kWeightStems)) files.push_back((std::filesystem::path(path) / name).string());
  bool are_shards = !files.empty() && (files[0].ends_with(".json") || files[0].find("-of-0") != std::string::npos);
  return files.empty() || are_shards ? std::vector{path} : files;
}

}  // namespace

void inspect(const Arguments& arguments) {
  std::vector<std::string> paths, model;
  int64_t first = 10;
  config::Fields fields;
  fields.group("Files");
  fields.positional("path", paths, "files or folders; two are compared as well");
  fields("model", model, "what two LoRAs are for whose names differ: a published model's name, as plan takes it, or the model's files");
  fields("first", first, "differences of each kind that are shown");
  auto parsed = config::read_command_line("inspect", "say what a checkpoint or LoRA is, and what two differ in", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  if (paths.empty()) config_error("inspect", "no file given; for example: burnish inspect lora.safetensors");
  if (first < 0) config_error("inspect", "--first counts differences, so it is 0 or more and not {}", first);
  std::optional<Error> failed;  // the first, once all others are shown
  for (const auto& path : paths) {
    for (const auto& name : files_in(path)) {
      try {
        auto files = models::open_model_files({{name}, "", "", models::HubUse::nothing});
        for (const auto& entry : files.entries) print_entry(entry);
      } catch (const Error& error) {
        if (failed) warn("{}", without_source(*failed));
        failed = error;
      }
    }
  }
  if (failed) throw Error(*failed);
  if (paths.size() != 2) return;
  auto comparison = convert::compare(paths[0], paths[1], model);
  print("{}", convert::text_of(comparison, paths[0], paths[1], first));
  if (!comparison.equal()) data_error("inspect", "{} and {} differ", paths[0], paths[1]);
}

}  // namespace burnish::app
