#include "studio/mcp_tools.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/input_error.h"
#include "base/text.h"
#include "report/data_url.h"

namespace burnish::studio {

using nlohmann::json;
using Kind = Input::Kind;
using Effect = Tool::Effect;

namespace {

constexpr size_t kMostOfAList = 200;  // entries of one answer

const Input kRunInput{"run", Kind::text, "name of a run, as list_runs gives it"};
const Input kDatasetInput{"dataset", Kind::text, "name of a dataset, as list_datasets gives it"};
const Input kFirstInput{"first", Kind::number, "number of the first entry that is wanted, from 0", false};
const Input kSettingsInput{"options", Kind::settings, "", false};

/// Options by level, or by what their names or meanings hold.
json options_of(const json& schema, const json& arguments) {
  const auto search = arguments.value("search", ""), level = arguments.value("level", search.empty() ? "first_run" : "all");
  auto found = json::array();
  for (const auto& option : schema.at("options")) {
    const auto own = option.at("level").get<std::string>();
    const bool is_shown = level == "all" || own == "first_run" || own == level;
    const auto text = option.at("name").get<std::string>() + " " + option.at("meaning").get<std::string>();
    if (is_shown && text.find(search) != std::string::npos) found.push_back(option);
  }
  return page_of(found, arguments);
}

/// As it is now, without the minutes before.
json machine_of(const json& machine, const json& /*arguments*/) {
  auto now = machine;
  now["processor_busy"] = machine.at("looks").back().at("busy");
  now["used_bytes"] = machine.at("looks").back().at("used_bytes");
  now.erase("looks");
  return now;
}

/// Names alone, or one of them whole.
json recipes_of(const json& answer, const json& arguments) {
  const auto& recipes = answer.at("recipes");
  if (!arguments.contains("name")) {
    auto names = json::array();
    for (const auto& recipe : recipes) names.push_back(recipe.at("name"));
    return {{"names", names}};
  }
  for (const auto& recipe : recipes) {
    if (recipe.at("name") == arguments.at("name")) return recipe;
  }
  config_error("studio", "there is no recipe '{}'; get_recipe without a name lists the names", arguments.at("name").get<std::string>());
}

std::vector<Tool> tools_to_begin() {
  return {
      {"get_workspace", "Says which folder is open, and which datasets are in it.", Effect::reads, "GET", "/api/studio", {}},
      {"get_machine",
       "Says what the machine is at: processor, memory, GPUs, disk of the workspace, and what each run takes.",
       Effect::reads,
       "GET",
       "/api/machine",
       {},
       machine_of},
      {"list_options",
       "Lists options of a training run: name, type, default, choices, range, meaning, what they belong to. Without a search those of a "
       "first run.",
       Effect::reads,
       "GET",
       "/api/options",
       {{"search", Kind::text, "text that name or meaning holds", false},
        {"level", Kind::text, "how many: those of a first run, the usual ones as well, or all", false, {"first_run", "usual", "all"}},
        kFirstInput},
       options_of},
      {"get_recipe",
       "Gives the settings of a recipe, to begin from: models by the memory that they train in. Without a name lists the names.",
       Effect::reads,
       "GET",
       "/api/recipes",
       {{"name", Kind::text, "name of the recipe", false}},
       recipes_of},
      {"plan_run",
       "Checks settings and says what memory a run of them takes against what there is, or what is wrong, by option. Loads no weights, and "
       "takes some seconds. Do this before start_run.",
       Effect::reads,
       "POST",
       "/api/plan",
       {kSettingsInput, {"fit", Kind::truth, "also look for settings that fit, where these do not", false}}},
      {"start_run",
       "Puts a run into the queue, which starts it at once if nothing else runs. Answers at once; follow it with get_run.",
       Effect::changes,
       "POST",
       "/api/queue/jobs",
       {kSettingsInput, {"name", Kind::text, "name of the run and its folder; another like it is taken where there is one"}}},
  };
}

std::vector<Tool> tools_of_runs() {
  return {
      {"list_runs", "Lists runs, the newest first: state, progress, loss, exit code.", Effect::reads, "GET", "/api/runs", {kFirstInput}},
      {"get_run",
       "Says where a run stands: state, stage, step of steps, seconds left of the stage, loss, last preview [step, number], and, once it "
       "has "
       "ended, why.",
       Effect::reads,
       "GET",
       "/api/runs/{run}",
       {kRunInput}},
      {"get_run_settings", "Gives the settings of a run as TOML.", Effect::reads, "GET", "/api/runs/{run}/settings", {kRunInput}},
      {"get_run_log", "Gives the last that a run printed.", Effect::reads, "GET", "/api/runs/{run}/log", {kRunInput}},
      {"list_run_files", "Lists the files of weights that a run saved.", Effect::reads, "GET", "/api/runs/{run}/files", {kRunInput}},
      {"list_files",
       "Lists files with weights: those that somebody dropped, and those that runs saved; each with its place.",
       Effect::reads,
       "GET",
       "/api/files",
       {kFirstInput}},
      {"inspect_file",
       "Says what a file with weights is: kind, rank, whose names it has and what reads them, its metadata.",
       Effect::reads,
       "GET",
       "/api/inspect/{place}/{name}",
       {{"place", Kind::text, "where it lies, as list_files gives it"}, {"name", Kind::text, "its name there"}}},
      {"get_preview",
       "Shows a picture that a run drew while it trained; get_run names the last.",
       Effect::reads,
       "GET",
       "/runs/{run}/previews/0/{step}/{number}",
       {kRunInput, {"step", Kind::number, "step that it was drawn after"}, {"number", Kind::number, "number of its prompt"}}},
      {"ask_run",
       "Asks something of a run that trains: draw its previews now, save now, or end, with everything saved, when this epoch is over.",
       Effect::changes,
       "POST",
       "/api/runs/{run}/ask",
       {kRunInput, {"what", Kind::text, "what is asked", true, {"preview", "save", "stop_after_epoch"}}}},
      {"stop_run",
       "Ends a run after its step, with everything saved; resume_run goes on with it.",
       Effect::changes,
       "POST",
       "/api/runs/{run}/stop",
       {kRunInput}},
      {"resume_run",
       "Goes on with a run that was stopped, or failed, from what it saved.",
       Effect::changes,
       "POST",
       "/api/runs/{run}/resume",
       {kRunInput}},
      {"delete_run",
       "Moves a run that does not go on to the bin of the workspace.",
       Effect::removes,
       "DELETE",
       "/api/runs/{run}",
       {kRunInput}},
  };
}

std::vector<Tool> tools_of_queue_and_datasets() {
  return {
      {"get_queue", "Lists the jobs of the queue in their order, and whether it is paused.", Effect::reads, "GET", "/api/queue", {}},
      {"pause_queue",
       "Pauses the queue, so that nothing more is started, or goes on with it. What runs goes on.",
       Effect::changes,
       "POST",
       "/api/queue",
       {{"is_paused", Kind::truth, "whether it is paused"}}},
      {"remove_job",
       "Takes a job that waits, or has ended, out of the queue.",
       Effect::removes,
       "DELETE",
       "/api/queue/jobs/{job}",
       {{"job", Kind::text, "id of the job, as get_queue gives it"}}},
      {"list_datasets",
       "Lists datasets: how many pictures and clips, and how many captions.",
       Effect::reads,
       "GET",
       "/api/datasets",
       {kFirstInput}},
      {"list_pictures",
       "Lists the pictures and clips of a dataset: file, caption, size, whether it is left out, what is wrong with it.",
       Effect::reads,
       "GET",
       "/api/datasets/{dataset}/items",
       {kDatasetInput, kFirstInput}},
      {"get_picture",
       "Shows a picture of a dataset, small.",
       Effect::reads,
       "GET",
       "/api/datasets/{dataset}/items/{file}/thumbnail",
       {kDatasetInput, {"file", Kind::text, "name of its file"}}},
      {"write_captions",
       "Writes captions of a dataset. Answers with what stood there before, which undoes it.",
       Effect::changes,
       "POST",
       "/api/datasets/{dataset}/captions",
       {kDatasetInput, {"captions", Kind::texts_by_name, "captions by the names of their files; an empty one removes it"}}},
  };
}

}  // namespace

json page_of(const json& list, const json& arguments) {
  const auto first = std::min<size_t>(arguments.value("first", size_t{0}), list.size());
  const auto end = std::min(first + kMostOfAList, list.size());
  json page{{"entries", json::array()}, {"first", first}, {"total", list.size()}};
  for (size_t i = first; i < end; ++i) page["entries"].push_back(list[i]);
  return page;
}

const std::vector<Tool>& tools() {
  static const std::vector<Tool> kTools = [] {
    std::vector<Tool> all;
    for (auto* part : {tools_to_begin, tools_of_runs, tools_of_queue_and_datasets}) {
      auto some = part();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return kTools;
}

}  // namespace burnish::studio
