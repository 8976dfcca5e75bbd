#include "studio/demo.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

uint64_t bytes_below(const fs::path& folder) {
  uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; entry != end; entry.increment(error)) {
    std::error_code gone;
    if (entry->is_regular_file(gone)) sum += entry->file_size(gone);
  }
  return sum;
}

/// Tells whether all files of one folder are in the other one too, by their names.
bool holds_all_of(const fs::path& folder, const fs::path& other) {
  return std::ranges::all_of(io::glob(other, "*"), [&](const fs::path& file) { return io::is_there(folder / file.filename()); });
}

}  // namespace

json Demo::describe() const {
  const auto all = read();
  if (all.is_null()) return nullptr;
  const auto model = folder_ / all.value("model", "");
  return {{"model", model.string()},
          {"title", all.value("title", "")},
          {"family", all.value("family", "")},
          {"bytes", bytes_below(model)},
          {"settings", io::read_text(folder_ / all.value("settings", ""))},
          {"pictures", io::glob(folder_ / all.value("pictures", ""), "*.png").size()}};
}

std::string Demo::make_dataset(const Workspace& workspace) const {
  const auto all = read();
  if (all.is_null()) config_error("studio", "no pictures come with this program; add pictures of your own");
  const auto pictures = folder_ / all.value("pictures", "");
  if (holds_all_of(workspace.datasets() / "demo", pictures)) return "demo";
  const auto name = free_name(workspace.datasets(), "demo");
  make_folder(workspace.datasets() / name);
  for (const auto& file : io::glob(pictures, "*")) {
    std::error_code error;
    fs::copy_file(file, workspace.datasets() / name / file.filename(), error);
    if (error)
      data_error("studio", "{} cannot be copied to {}: {}", file.string(), (workspace.datasets() / name).string(), error.message());
  }
  return name;
}

/// Null where something that demo.json names is not there.
json Demo::read() const {
  if (folder_.empty()) return nullptr;
  auto all = json_or(folder_ / "demo.json", json::object());
  const bool is_whole = std::ranges::all_of(std::array{"model", "pictures", "settings"}, [&](const char* part) {
    const auto name = all.value(part, "");
    return is_name(name) && io::is_there(folder_ / name);
  });
  return is_whole ? all : json();
}

}  // namespace burnish::studio
