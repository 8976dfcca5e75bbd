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
#include "models/family.h"

namespace burnish::app {

namespace {

void print_lora(const io::TensorSource& source) {
  std::map<int64_t, int64_t> ranks;
  for (const auto& name : source.names()) {
    if (name.find("lora_A") != name.npos || name.find("lora_down") != name.npos || name.find("lora.down") != name.npos ||
        name.find("hada_w1_b") != name.npos || name.find("lokr_w2_b") != name.npos)
      ++ranks[source.info(name).shape.at(0)];
  }
  std::vector<std::string> texts;
  for (const auto& [rank, count] : ranks) texts.push_back(fmt::format("rank {} on {} layers", rank, count));
  fmt::print("  LoRA: {}\n", join(texts));
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
  if (adapters::is_adapter(source)) print_lora(source);
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
  std::vector<std::string> paths;
  config::Fields fields;
  fields.group("Files");
  fields.positional("path", paths, "checkpoints, LoRAs, or folders of them");
  auto parsed = config::read_command_line("inspect", "say what a checkpoint or LoRA is", arguments, fields);
  if (parsed.help) return fmt::print("{}", parsed.help_text);
  if (paths.empty()) config_error("inspect", "no file given; for example: burnish inspect lora.safetensors");
  for (const auto& path : paths) {
    auto files = models::open_model_files({{path}, "", "", models::HubUse::nothing});
    for (const auto& entry : files.entries) print_entry(entry);
  }
}

}  // namespace burnish::app
