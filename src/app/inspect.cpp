#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "adapters/adapter_file.h"
#include "app/verbs.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"
#include "config/fields.h"
#include "convert/compare.h"
#include "models/family.h"

namespace burnish::app {

namespace {

void print_adapter(const std::map<std::string, int64_t>& kinds) {
  std::vector<std::string> texts;
  for (const auto& [kind, count] : kinds) texts.push_back(fmt::format("{} on {} layer{}", kind, count, count == 1 ? "" : "s"));
  fmt::print("  adapter: {}\n", join(texts));
}

void print_entry(const models::ModelEntry& entry) {
  fmt::print("{}\n", entry.label);
  if (!entry.tensors) return fmt::print("  config.json without weights\n");
  const auto& source = *entry.tensors;
  std::string kind;
  for (const auto* family : models::all_families()) {
    // Families share parts; the one whose denoiser is in the file says what it is.
    if (kind.empty() || family->recognises({{entry}, {}})) kind = family->describe(entry);
  }
  if (auto kinds = adapters::kinds_in(source); !kinds.empty()) print_adapter(kinds);
  else fmt::print("  {}\n", kind.empty() ? "no model known here" : kind);

  int64_t parameters = 0;
  std::map<std::string, int64_t> by_dtype;
  for (const auto& name : source.names()) {
    const auto& info = source.info(name);
    int64_t count = 1;
    for (auto size : info.shape) count *= size;
    parameters += count;
    by_dtype[dtype_name(info.dtype)] += count;
  }
  std::vector<std::string> dtypes;
  for (const auto& [name, count] : by_dtype) dtypes.push_back(name);
  fmt::print("  {} tensors, {:.3f} million values, {}, {}\n", source.names().size(), static_cast<double>(parameters) / 1e6, join(dtypes),
             human_bytes(static_cast<double>(source.num_bytes())));
  for (const auto& [key, value] : source.metadata())
    fmt::print("  {}: {}\n", key, value.size() > 200 ? value.substr(0, 200) + "..." : value);
}

}  // namespace

void inspect(const Arguments& arguments) {
  std::vector<std::string> paths, model;
  int64_t first = 10;
  config::Fields fields;
  fields.group("Files");
  fields.positional("path", paths, "files or folders; two are compared as well");
  fields("model", model,
         fmt::format("what two LoRAs are for whose names differ: {}, or the model's files", join(models::published_models())));
  fields("first", first, "differences of each kind that are shown");
  auto parsed = config::read_command_line("inspect", "say what a checkpoint or LoRA is, and what two differ in", arguments, fields);
  if (parsed.help) return fmt::print("{}", parsed.help_text);
  if (paths.empty()) config_error("inspect", "no file given; for example: burnish inspect lora.safetensors");
  for (const auto& path : paths) {
    auto files = models::open_model_files({{path}, "", "", models::HubUse::nothing});
    for (const auto& entry : files.entries) print_entry(entry);
  }
  if (paths.size() != 2) return;
  auto comparison = convert::compare(paths[0], paths[1], model);
  fmt::print("{}", convert::text_of(comparison, paths[0], paths[1], first));
  if (!comparison.equal()) data_error("inspect", "{} and {} differ", paths[0], paths[1]);
}

}  // namespace burnish::app
