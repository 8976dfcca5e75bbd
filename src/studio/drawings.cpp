#include "studio/drawings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/input_error.h"
#include "base/number.h"
#include "io/files.h"
#include "studio/grid.h"
#include "studio/runs.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::array kEndings{".png", ".webp", ".mp4", ".webm"};

Work drawing(const Workspace& workspace, const std::string& program, CheckSettings check) {
  return {.folder = workspace.queue() / "drawings",
          .results = workspace.drawings(),
          .working_in = workspace.root(),
          .command =
              [program](const Job&, const std::string& settings, const std::string& result) {
                return std::vector<std::string>{program,         "sample", "--config", settings, "--prompts", result + "/prompts.txt",
                                                "--output_path", result};
              },
          .variables = {"BURNISH_PROGRESS_SECONDS=1"},
          .check = std::move(check)};
}

/// Names of pictures by their numbers: sample calls them 0000.png and so on.
std::map<int64_t, std::string> pictures_in(const fs::path& drawing) {
  std::map<int64_t, std::string> pictures;
  std::error_code error;
  for (fs::directory_iterator entry(drawing, error), end; entry != end; entry.increment(error)) {
    const auto& path = entry->path();
    const auto number = parse_number<int64_t>(path.stem().string());
    if (number && std::ranges::find(kEndings, path.extension().string()) != kEndings.end()) pictures[*number] = path.filename().string();
  }
  return pictures;
}

/// The grid as it was asked for; an empty one in place of what is no grid.
json grid_of(const fs::path& drawing) {
  const json none{{"settings", json::object()}, {"cells", json::array()}, {"total", 0}};
  auto grid = json_or(drawing / "grid.json", none);
  auto is_such = [&](const char* key, json::value_t type) { return grid.contains(key) && grid[key].type() == type; };
  const bool is_grid = is_such("settings", json::value_t::object) && is_such("cells", json::value_t::array) && grid.contains("total") &&
                       grid["total"].is_number_integer();
  return is_grid ? grid : none;
}

}  // namespace

Drawings::Drawings(const Workspace& workspace, Files& files, const std::string& program, CheckSettings check)
    : workspace_(workspace), files_(files), check_(check), queue_(drawing(workspace, program, std::move(check))) {}

json Drawings::standing(const fs::path& drawing) const {
  const auto name = drawing.filename().string();
  json value{{"name", name}, {"state", "ended"}, {"exit_code", nullptr}, {"written", seconds_since_1970(drawing)}};
  const auto job = queue_.of_run(name);
  value["says"] = job ? queue_.says(job->id) : "";
  if (job) value.update(to_json(*job));
  return value;
}

Drawings::KnownGrid Drawings::known_of(const fs::path& drawing) {
  const auto time = seconds_since_1970(drawing / "grid.json");
  std::lock_guard lock(mutex_);
  auto& known = known_[drawing.filename().string()];
  if (known.time != time) {
    const auto grid = grid_of(drawing);
    const auto run = grid["settings"].value("run", json());
    known = {.time = time, .total = grid["total"].get<int64_t>(), .run = run.is_string() ? run.get<std::string>() : ""};
  }
  return known;
}

json Drawings::list() {
  std::vector<json> all;
  for (const auto& name : Workspace::names(workspace_.drawings())) {
    const auto folder = workspace_.drawings() / name;
    auto value = standing(folder);
    const auto pictures = pictures_in(folder);
    value["done"] = pictures.size();
    const auto known = known_of(folder);
    value["total"] = known.total;
    value["of_run"] = known.run;
    value["first"] = pictures.empty() ? json() : json(pictures.begin()->second);
    all.push_back(std::move(value));
  }
  std::ranges::stable_sort(all, [](const json& a, const json& b) { return a["written"].get<double>() > b["written"].get<double>(); });
  return all;
}

json Drawings::describe(const fs::path& drawing) const {
  auto value = grid_of(drawing);
  value.update(standing(drawing));
  value["pictures"] = json::object();
  for (const auto& [number, name] : pictures_in(drawing)) value["pictures"][std::to_string(number)] = name;
  return value;
}

Job Drawings::draw(const json& wish) {
  const auto name_wish = wish.value("name", "drawing");
  if (!is_name(name_wish)) config_error("studio", "nothing can be called '{}': names have no slashes, and begin with no dot", name_wish);
  auto given = wish;
  given.erase("name");
  if (!given.contains("loras")) given["loras"] = json::array();
  auto settings = std::string();
  if (const auto run = wish.value("run", ""); !run.empty()) {
    const auto folder = Workspace::find(workspace_.runs(), run);
    if (!folder) config_error("studio", "there is no run {}", run);
    settings += fmt::format("run = {}\n", to_toml(folder->string()));
    given["leaves_out_loras"] = given["loras"].empty() && files_.has_adapter(*folder);
  }
  auto loras = json::array();
  for (const auto& lora : given["loras"]) {
    const auto path = files_.find(weight_file_of(lora));
    if (!path) config_error("studio", "there is no {} in {}", lora.at("name").get<std::string>(), lora.at("place").get<std::string>());
    const auto layers = lora.value("layers", "");
    loras.push_back(layers.empty() ? path->string() : path->string() + ":" + layers);
  }
  if (!loras.empty()) settings += fmt::format("lora = {}\n", to_toml(loras));
  if (const auto negative = wish.value("negative_prompt", ""); !negative.empty())
    settings += fmt::format("negative_prompt = {}\n", to_toml(negative));
  const auto grid = make_grid(given);
  if (const auto count = wish.value("without_blocks", int64_t{0}); count > 0) settings += fmt::format("without_blocks = {}\n", count);
  settings += wish.value("settings", "");
  if (check_) check_(name_wish, settings);  // before there is a folder

  const auto name = free_name(workspace_.drawings(), name_wish);
  const auto folder = workspace_.drawings() / name;
  std::error_code error;
  if (!fs::create_directory(folder, error)) config_error("studio", "{} cannot be made: {}", folder.string(), error.message());
  given.erase("leaves_out_loras");
  io::write_text_atomic(folder / "prompts.txt", grid.prompts);
  const json described{{"settings", given}, {"cells", grid.cells}, {"total", grid.num_pictures}};
  io::write_text_atomic(folder / "grid.json", described.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  return queue_.add(name, settings, /*resumes=*/true);
}

bool Drawings::stop(const std::string& name) {
  const auto job = queue_.of_run(name);
  if (!job) return false;
  return job->state == Job::State::waiting ? queue_.remove(job->id) : interrupt(*job);
}

bool Drawings::forget(const std::string& name) {
  const auto job = queue_.of_run(name);
  return !job || queue_.remove(job->id);
}

std::optional<fs::path> Drawings::find_picture(const fs::path& drawing, const std::string& file) {
  const bool is_picture = is_name(file) && std::ranges::any_of(kEndings, [&](const char* ending) { return file.ends_with(ending); });
  if (!is_picture || !io::is_there(drawing / file)) return std::nullopt;
  return drawing / file;
}

}  // namespace burnish::studio
