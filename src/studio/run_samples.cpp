#include "studio/run_samples.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "io/files.h"
#include "studio/datasets.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

std::string dataset_of(Studio& studio, const fs::path& run) {
  const auto settings = run / "config.toml";
  if (!io::is_there(settings)) return "";
  const auto values = studio.options.form(io::read_text(settings)).value("values", json::object());
  for (const char* option : {"dataset_base_path", "dataset_metadata_path"}) {
    const auto path = values.value(option, json());
    if (!path.is_string() || path.get_ref<const std::string&>().empty()) continue;
    std::error_code ignored;
    for (const auto& name : Workspace::names(studio.workspace.datasets())) {
      if (fs::equivalent(run / path.get<std::string>(), studio.workspace.datasets() / name, ignored)) return name;
    }
  }
  return "";
}

void name_item(Studio& studio, const std::string& dataset, json& sample) {
  const auto folder = dataset.empty() ? fs::path() : fs::canonical(studio.workspace.datasets() / dataset);
  const auto file = fs::path(sample.value("file", ""));
  const auto item = file.is_absolute() ? file.lexically_relative(folder) : file;
  const auto found = dataset.empty() ? std::nullopt : Datasets::find(folder, item.string());
  sample["item"] = found ? json(found->name) : json();
  sample["is_left_out"] = found && found->is_left_out;
}

}  // namespace burnish::studio
