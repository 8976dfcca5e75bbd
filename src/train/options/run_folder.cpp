#include "train/options/run_folder.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "checkpoint/state.h"
#include "data/load_metadata.h"
#include "train/subject/output_folder.h"

namespace burnish::train {

namespace {

/// Tells by what a run says of itself whether a folder is one's.
bool is_of_run(const OutputSettings& output) {
  if (checkpoint::is_there(output.state())) return true;
  const auto status = output.folder / "status.json";
  const auto text = io::is_there(status) && !io::is_folder(status) ? io::read_text(status) : "";
  const auto said = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return said.is_object() && said.contains("state");
}

/// Finds what a run writes, or removes, by its name, in a folder that is no run's.
std::vector<std::filesystem::path> taken_names(const OutputSettings& output) {
  std::vector<std::filesystem::path> taken;
  std::error_code failed;
  for (const char* name : {"config.toml", "log.jsonl", "log.csv", "plan.json", "report.html", "status.json", "visits.jsonl", "state"}) {
    const auto path = output.folder / name;
    const bool is_empty = io::is_folder(path) && std::filesystem::is_empty(path, failed);
    if (io::is_there(path) && !is_empty) taken.push_back(path);
  }
  for (const auto& name : {output.prefix() + "step-*.safetensors", output.prefix() + "best*.safetensors", std::string("samples/step-*")}) {
    const auto found = io::glob(output.folder, name);
    taken.insert(taken.end(), found.begin(), found.end());
  }
  return taken;
}

/// Throws a config Error where the folder is no run's and holds a file of a name that a run writes, which it would replace.
void check_no_file_lost(const OutputSettings& output) {
  if (is_of_run(output)) return;
  if (const auto taken = taken_names(output); !taken.empty())
    config_error("train",
                 "{} was written by no run, and one in that folder writes files of such a name; name another folder with --output_path",
                 taken.front().string());
}

}  // namespace

void check_nothing_lost(const OutputSettings& output) {
  if (output.resume || output.overwrite || !checkpoint::is_there(output.state())) return;
  config_error("train",
               "{} holds a run, whose log and state a new one would replace: go on with it with --resume, start anew in its place with "
               "--overwrite, or name another folder with --output_path",
               output.folder.string());
}

void check_previews_apart(const Settings& settings) {
  if (settings.output.previews.prompts.empty()) return;
  auto whole = [](const std::filesystem::path& path) { return std::filesystem::weakly_canonical(path).string() + "/"; };
  auto run = whole(settings.output.folder);
  for (const auto* pictures : {&settings.data.pictures, &settings.data.held_out}) {
    for (const auto& subset : pictures->subsets) {
      auto metadata = data::metadata_in(subset.metadata_path);
      if (!io::is_folder(metadata) || !run.starts_with(whole(metadata))) continue;
      config_error("train",
                   "output_path {} lies in {}, and previews drawn there would become pictures of the dataset; name a folder beside it",
                   settings.output.folder.string(), metadata.string());
    }
  }
}

io::FolderClaim claim_run_folder(const OutputSettings& output) {
  make_output_folder(output.folder);
  io::FolderClaim claim(output.folder);
  if (!claim.held())
    data_error("train", "another run is writing into {}; wait for its end, or name another folder with --output_path",
               output.folder.string());
  check_nothing_lost(output);  // a run that has ended since may have saved
  io::remove_partial_files(output.folder);
  check_no_file_lost(output);
  return claim;
}

}  // namespace burnish::train
