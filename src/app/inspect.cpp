#include <ATen/core/Tensor.h>
#include <ATen/ops/any.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "adapters/adapter_file.h"
#include "app/verbs.h"
#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "checkpoint/state.h"
#include "config/command_line.h"
#include "convert/compare.h"
#include "convert/embedding.h"
#include "convert/lora_format.h"
#include "convert/lora_norms.h"
#include "convert/model_of_lora.h"
#include "io/files.h"
#include "loras/embedding_file.h"
#include "models/files/pipeline_index.h"
#include "models/refused_files.h"
#include "models/registry.h"

namespace burnish::app {

namespace {

using Json = nlohmann::ordered_json;

/// Describes an adapter's file: its kinds, with the layers that each is on, and in whose names they are.
void describe_adapter(Json& report, const std::map<std::string, int64_t>& kinds, const std::vector<std::string>& names) {
  report["what"] = "adapter";
  report["adapter"] = kinds;
  const auto format = convert::format_of_names(names);
  if (!format) return;
  report["names"] = convert::lora_formats().at(static_cast<size_t>(*format));
  const bool is_lora =
      std::ranges::all_of(kinds, [](const auto& kind) { return kind.first == "lora" || kind.first.starts_with("lora of "); });
  report["read_by"] = convert::readers_of(*format, is_lora);
}

/// Returns how many of an adapter's tensors hold nothing but zeros: some do before they train, and their layers are as they were.
int64_t num_zeros_in(const io::TensorSource& source) {
  return std::ranges::count_if(source.names(),
                               [&](const auto& name) { return !source.tensor(name).to(at::kFloat).any().template item<bool>(); });
}

/// The words whose vectors a file holds, with what they are called in it.
Json words_in(const io::TensorSource& source, const std::string& path) {
  Json words;
  for (const auto& tensor : loras::word_tensors(source, path)) {
    const auto& shape = source.info(tensor.tensor).shape;
    words[tensor.word].push_back(fmt::format("{}{} [{}]", tensor.name.empty() ? "vectors" : tensor.name,
                                             tensor.are_states ? loras::kStatesEnding : "", fmt::join(shape, ", ")));
  }
  return words;
}

/// What a model's file is, as the families know it.
std::string describe_model(const models::ModelEntry& entry) {
  if (const auto* other = models::look_alike_in(entry)) return fmt::format("{} transformer, which is not trained here", other->name);
  std::string kind;
  for (const auto* family : models::all_families()) {
    // Families share parts; the one whose denoiser is in the file says what it is.
    bool is_its_own = family->recognises({{entry}, {}});
    if (kind.empty() || is_its_own) kind = family->describe(entry);
    if (is_its_own) break;
  }
  return kind.empty() ? "no model known here" : kind;
}

Json describe(const models::ModelEntry& entry) {
  Json report{{"path", entry.label}};
  if (!entry.tensors) return report["what"] = "config.json without weights", report;
  const auto& source = *entry.tensors;
  if (auto step = checkpoint::step_of_state(source)) {
    report["what"] = "state of a burnish run";
    report["step"] = *step;
    return report;
  }
  if (auto kinds = adapters::kinds_in(source); !kinds.empty()) {
    describe_adapter(report, kinds, source.names());
    if (auto zeros = num_zeros_in(source); zeros > 0) report["zeros"] = zeros;
  }
  if (!report.contains("what")) report["what"] = convert::is_embedding(entry.label) ? "embedding" : describe_model(entry);
  if (auto words = words_in(source, entry.label); !words.empty()) report["words"] = words;
  if (auto packing = models::unread_packing(entry); !packing.empty()) report["packed_as"] = packing;

  int64_t num_values = 0;
  std::set<std::string> dtypes;
  for (const auto& name : source.names()) {
    const auto& info = source.info(name);
    int64_t count = 1;
    for (auto size : info.shape) count *= size;
    num_values += count;
    dtypes.insert(io::numbers_name(info));
  }
  report["tensors"] = source.names().size();
  report["values"] = num_values;
  report["dtypes"] = dtypes;
  report["bytes"] = source.num_bytes();
  report["metadata"] = source.metadata();
  return report;
}

void print_report(const Json& report) {
  print("{}\n", report["path"].get<std::string>());
  const auto what = report["what"].get<std::string>();
  if (report.contains("step")) return print("  {} at step {}, to go on with by --resume\n", what, report["step"].get<int64_t>());
  if (!report.contains("tensors")) return print("  {}\n", what);
  if (report.contains("adapter")) {
    std::vector<std::string> kinds;
    for (const auto& [kind, count] : report["adapter"].items())
      kinds.push_back(fmt::format("{} on {}", kind, count_of(count.get<int64_t>(), "layer")));
    print("  adapter: {}\n", join(kinds));
  } else {
    print("  {}\n", what);
  }
  if (report.contains("zeros"))
    print("  {} of {} tensors hold zeros: what they are of was not trained\n", report["zeros"].get<int64_t>(),
          report["tensors"].get<int64_t>());
  if (report.contains("names"))
    print("  names: {}, read by {}\n", report["names"].get<std::string>(), report["read_by"].get<std::string>());
  if (report.contains("words")) {
    for (const auto& [word, tensors] : report["words"].items()) print("  {}: {}\n", word, join(tensors.get<std::vector<std::string>>()));
  }
  if (report.contains("packed_as")) print("  packed as {}, which is not read here\n", report["packed_as"].get<std::string>());
  print("  {} tensors, {:.3f} million values, {}, {}\n", report["tensors"].get<int64_t>(), report["values"].get<double>() / 1e6,
        join(report["dtypes"].get<std::vector<std::string>>()), human_bytes(report["bytes"].get<double>()));
  constexpr size_t kMostOfAValue = 200;
  for (const auto& [key, item] : report["metadata"].items()) {
    const auto value = item.get<std::string>();
    print("  {}: {}\n", key, value.size() > kMostOfAValue ? value.substr(0, kMostOfAValue) + "..." : value);
  }
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

/// Returns what files are, in their order, and of those that cannot be read the reason; the first Error, once all others are known.
std::optional<Error> describe_all(const std::vector<std::string>& paths, const std::function<void(const Json&)>& take) {
  std::optional<Error> failed;
  for (const auto& path : paths) {
    for (const auto& name : files_in(path)) {
      try {
        auto files = models::open_model_files({{name}, "", "", models::HubUse::nothing});
        for (const auto& entry : files.entries) take(describe(entry));
      } catch (const Error& error) {
        take({{"path", name}, {"problem", without_source(error)}});
        if (failed) warn("{}", without_source(*failed));
        failed = error;
      }
    }
  }
  return failed;
}

/// Says what a LoRA adds to each block, in a table or as JSON.
void describe_blocks(const std::string& path, const std::vector<std::string>& model, bool json) {
  const auto norms = convert::norms_by_block(path, model);
  if (json) {
    auto blocks = Json::array();
    for (const auto& norm : norms)
      blocks.push_back({{"block", norm.block}, {"layers", norm.num_layers}, {"norm", norm.norm}, {"share", norm.share}});
    return print("{}\n", Json{{"path", path}, {"blocks", blocks}}.dump(2));
  }
  size_t width = 5;
  for (const auto& norm : norms) width = std::max(width, norm.block.size());
  print("{:<{}}  layers      norm   share\n", "block", width);
  int64_t num_unknown = 0;
  for (const auto& norm : norms) {
    print("{:<{}}  {:>6}  {:>8.4g}  {:>5.1f}%\n", norm.block, width, norm.num_layers, norm.norm, 100 * norm.share);
    num_unknown += norm.num_unknown;
  }
  if (num_unknown > 0)
    print("{} not counted: what they add depends on the model's weights, or is to biases and norms\n", count_of(num_unknown, "layer"));
}

}  // namespace

void inspect(const Arguments& arguments) {
  std::vector<std::string> paths, model;
  int64_t first = 10;
  bool json = false, by_block = false;
  config::Fields fields;
  fields.group("Files");
  fields.positional("path", paths, "files or folders; two are compared as well");
  fields.path("model", model,
              "what LoRAs are for: a published model's name, as plan takes it, or the model's files; without it their names tell", {},
              config::seen_from_if_there);
  fields("first", first, "differences of each kind that are shown");
  fields("by_block", by_block, "say how much a LoRA adds to each block of its model");
  fields("json", json, "print what each file is as JSON; nothing is compared");
  auto parsed = config::read_command_line("inspect", "say what a checkpoint or LoRA is, and what two differ in", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  if (paths.empty()) config_error("inspect", "no file given; for example: burnish inspect lora.safetensors");
  if (first < 0) config_error("inspect", "--first counts differences, so it is 0 or more and not {}", first);
  if (by_block) {
    if (paths.size() > 1) config_error("inspect", "--by_block looks into one LoRA, and {} files are named", paths.size());
    if (!convert::is_lora(paths.front()))
      config_error("inspect", "--by_block says what a LoRA adds to the blocks of its model, and {} is none", paths.front());
    return describe_blocks(paths.front(), model, json);
  }
  auto reports = Json::array();
  auto failed = describe_all(paths, [&](const Json& report) {
    if (json) reports.push_back(report);
    else if (!report.contains("problem")) print_report(report);
  });
  if (json) print("{}\n", reports.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
  if (failed) throw Error(*failed);
  if (json || paths.size() != 2) return;
  auto comparison = convert::compare(paths[0], paths[1], model);
  print("{}", convert::text_of(comparison, paths[0], paths[1], first));
  if (!comparison.equal()) data_error("inspect", "{} and {} differ", paths[0], paths[1]);
}

}  // namespace burnish::app
