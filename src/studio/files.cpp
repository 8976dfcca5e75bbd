#include "studio/files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "io/safetensors.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kWeights = ".safetensors";
constexpr const char* kOfRun = "runs/";

/// Tells whether a folder is a model or an adapter by itself.
bool holds_weights(const fs::path& folder) {
  return std::ranges::any_of(std::array{"model_index.json", "config.json", "adapter_config.json"},
                             [&](const char* mark) { return io::is_there(folder / mark); });
}

bool is_weights_name(const std::string& name) {
  return std::ranges::any_of(std::array{kWeights, ".pth", ".pt", ".bin", ".ckpt"},
                             [&](const char* ending) { return name.ends_with(ending); });
}

/// Tells whether it belongs to a model's folder: weights, configs, tokenizers.
bool is_part_name(const std::string& name) {
  return is_weights_name(name) ||
         std::ranges::any_of(std::array{".json", ".txt", ".model"}, [&](const char* ending) { return name.ends_with(ending); });
}

uint64_t bytes_of(const fs::path& path) {
  std::error_code error;
  if (!io::is_folder(path)) return fs::file_size(path, error);
  uint64_t bytes = 0;
  for (fs::recursive_directory_iterator entry(path, error), end; entry != end; entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_regular_file(unknown)) bytes += entry->file_size(unknown);
  }
  return bytes;
}

/// Whether tensors are called as adapters call theirs, whatever the layers of the model.
bool has_names_of_adapter(const fs::path& file) {
  try {
    const auto opened = io::SafetensorsFile::open(file);
    return std::ranges::any_of(opened->tensors(), [](const auto& tensor) {
      return std::ranges::any_of(std::array{"lora_", ".lora.", "hada_", "lokr_", "oft_", "boft_", "ia3_", "glora_"},
                                 [&](const char* mark) { return tensor.first.find(mark) != std::string::npos; });
    });
  } catch (const Error&) {
    return false;  // which is said when somebody looks at it
  }
}

/// The names of a path in a folder of the workspace; none where one of them is no name.
std::vector<std::string> names_of(const std::string& path) {
  constexpr size_t kMostFolders = 3;
  std::vector<std::string> names;
  size_t begin = 0;
  while (begin <= path.size()) {
    const auto end = std::min(path.find('/', begin), path.size());
    names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool are_names = std::ranges::all_of(names, is_name) && names.size() <= kMostFolders + 1;
  return are_names ? names : std::vector<std::string>();
}

Work conversion(const Workspace& workspace, const std::string& program, CheckSettings check) {
  return {.folder = workspace.queue() / "conversions",
          .results = workspace.files(),
          .working_in = workspace.root(),
          .command =
              [program](const Job&, const std::string& settings, const std::string&) {
                return std::vector<std::string>{program, "convert", "--config", settings};
              },
          .variables = {"BURNISH_PROGRESS_SECONDS=1"},
          .check = std::move(check)};
}

}  // namespace

WeightFile weight_file_of(const json& value) { return {value.at("place").get<std::string>(), value.at("name").get<std::string>()}; }

std::string to_toml(const json& value) { return value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace); }

Files::Files(const Workspace& workspace, const std::string& program, CheckSettings check)
    : workspace_(workspace), conversions_(conversion(workspace, program, std::move(check))) {}

bool Files::is_adapter(const fs::path& path) {
  if (io::is_folder(path)) return io::is_there(path / "adapter_config.json");
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  std::lock_guard lock(mutex_);
  auto& known = known_[path.string()];
  if (known.time != time) known = {time, has_names_of_adapter(path)};
  return known.is_adapter;
}

void Files::add_to(std::vector<json>& all, const std::string& place) {
  const bool is_of_run = place.starts_with(kOfRun);
  std::error_code error;
  for (fs::directory_iterator entry(workspace_.root() / place, error), end; entry != end; entry.increment(error)) {
    const auto& path = entry->path();
    const auto name = path.filename().string();
    const bool is_folder = io::is_folder(path);
    const bool is_shown = is_of_run ? !is_folder && name.ends_with(kWeights) : is_folder ? holds_weights(path) : is_weights_name(name);
    if (!is_name(name) || !is_shown) continue;
    all.push_back({{"place", place},
                   {"name", name},
                   {"bytes", bytes_of(path)},
                   {"is_folder", is_folder},
                   {"is_adapter", is_adapter(path)},
                   {"written", seconds_since_1970(path)}});
  }
}

bool Files::has_adapter(const fs::path& run) {
  const auto saved = io::glob(run, std::string("*") + kWeights);
  return std::ranges::any_of(saved, [&](const auto& path) { return is_adapter(path); });
}

json Files::list() {
  std::vector<json> all;
  add_to(all, "files");
  add_to(all, "loras");
  for (const auto& run : Workspace::names(workspace_.runs())) add_to(all, kOfRun + run);
  std::ranges::stable_sort(all, [](const json& a, const json& b) { return a["written"].get<double>() > b["written"].get<double>(); });
  return all;
}

std::optional<fs::path> Files::find(const WeightFile& file) const {
  const auto names = names_of(file.name);
  std::optional<fs::path> path;
  if (file.place == "files") path = workspace_.files();
  if (file.place == "loras") path = workspace_.loras();
  if (file.place.starts_with(kOfRun)) path = Workspace::find(workspace_.runs(), file.place.substr(std::string_view(kOfRun).size()));
  if (!path || names.empty()) return std::nullopt;
  for (const auto& name : names) *path /= name;
  const bool is_weights = io::is_folder(*path) || is_part_name(names.back());
  return is_weights && io::is_there(*path) ? path : std::nullopt;
}

std::optional<fs::path> Files::path_to_add(const WeightFile& file) const {
  const auto names = names_of(file.name);
  if (names.empty() || !is_part_name(names.back())) return std::nullopt;
  if (names.size() == 1 && !is_weights_name(names.back())) return std::nullopt;
  auto folder = file.place == "loras" ? workspace_.loras() : workspace_.files();
  for (size_t i = 0; i + 1 < names.size(); ++i) folder /= names[i];
  return folder / names.back();
}

Job Files::convert(const std::vector<WeightFile>& inputs, const std::string& wish, const std::string& settings) {
  if (inputs.empty()) config_error("studio", "nothing is named that is to be converted");
  if (!is_name(wish)) config_error("studio", "nothing can be called '{}': names have no slashes, and begin with no dot", wish);
  auto paths = json::array();
  for (const auto& input : inputs) {
    const auto path = find(input);
    if (!path) config_error("studio", "there is no {} in {}", input.name, input.place);
    paths.push_back(path->string());
  }
  const auto folder = workspace_.files();
  io::remove_partial_files(folder);  // of conversions that were stopped
  paths.push_back((folder / free_name(folder, wish, wish.ends_with(kWeights) ? kWeights : "")).string());
  const auto name = fs::path(paths.back().get<std::string>()).filename().string();
  return conversions_.add(name, fmt::format("path = {}\n{}", to_toml(paths), settings), /*resumes=*/true);
}

}  // namespace burnish::studio
