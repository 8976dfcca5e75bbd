#include "studio/mcp_tools.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "report/data_url.h"

namespace burnish::studio {

using nlohmann::json;
using Kind = Input::Kind;
using Effect = Tool::Effect;

namespace {

constexpr size_t kMostOfAList = 200;  // entries of one answer
constexpr size_t kMostOfAPicture = 8 << 20;

const Input kRunInput{"run", Kind::text, "name of a run, as list_runs gives it"};
const Input kDatasetInput{"dataset", Kind::text, "name of a dataset, as list_datasets gives it"};
const Input kFirstInput{"first", Kind::number, "number of the first entry that is wanted, from 0", false};
const Input kSettingsInput{"options", Kind::settings, "", false};

/// A part of a list, with how many there are.
json page_of(const json& list, const json& arguments) {
  const auto first = std::min<size_t>(arguments.value("first", size_t{0}), list.size());
  const auto end = std::min(first + kMostOfAList, list.size());
  json page{{"entries", json::array()}, {"first", first}, {"total", list.size()}};
  for (size_t i = first; i < end; ++i) page["entries"].push_back(list[i]);
  return page;
}

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
json recipes_of(const json& recipes, const json& arguments) {
  if (!arguments.contains("name")) {
    auto names = json::array();
    for (const auto& recipe : recipes) names.push_back(recipe.at("name"));
    return {{"names", names}};
  }
  for (const auto& recipe : recipes) {
    if (recipe.at("name") == arguments.at("name")) return recipe;
  }
  config_error("studio", "there is no such recipe");
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

namespace {

/// The JSON Schema of an option, by its row.
json schema_of_option(const json& option) {
  static const std::vector<std::pair<std::string, json>> kTypes{{"text", {{"type", "string"}}},
                                                                {"whole number", {{"type", "integer"}}},
                                                                {"number", {{"type", "number"}}},
                                                                {"truth value", {{"type", "boolean"}}},
                                                                {"list of texts", {{"type", "array"}, {"items", {{"type", "string"}}}}}};
  json schema = std::ranges::find(kTypes, option.at("type").get<std::string>(), &std::pair<std::string, json>::first)->second;
  auto meaning = option.at("meaning").get<std::string>();
  if (option.contains("unit")) meaning += " (" + option["unit"].get<std::string>() + ")";
  if (option.contains("belongs_to")) meaning += "; belongs to " + option["belongs_to"][0].get<std::string>();
  schema["description"] = meaning;
  schema["default"] = option.at("default");
  if (option.contains("choices")) schema["examples"] = option["choices"];
  if (option.contains("least")) schema["minimum"] = option["least"];
  if (option.contains("most")) schema["maximum"] = option["most"];
  return schema;
}

/// "options" and "settings": those of a first run with all that is known of them, others by list_options.
json schema_of_settings(const json& options) {
  auto known = json::object();
  for (const auto& option : options.at("options")) {
    if (option.at("level") == "first_run" && !option.value("acts_outside", false))
      known[option.at("name").get<std::string>()] = schema_of_option(option);
  }
  return {{"options",
           {{"type", "object"},
            {"description",
             "options of the run by name; those that are not listed here are found with list_options. Datasets are named "
             "../datasets/NAME in dataset_base_path"},
            {"properties", known},
            {"additionalProperties", true}}},
          {"settings",
           {{"type", "string"}, {"description", "settings as a TOML file has them, of a recipe or another run; options are added"}}}};
}

json schema_of(const Input& input) {
  static constexpr std::array kTypes{"string", "integer", "boolean", "object", "object"};
  json schema{{"type", kTypes.at(static_cast<size_t>(input.kind))}, {"description", input.meaning}};
  if (!input.choices.empty()) schema["enum"] = input.choices;
  if (input.kind == Kind::number) schema["minimum"] = 0;
  if (input.kind == Kind::texts_by_name) schema["additionalProperties"] = {{"type", "string"}};
  return schema;
}

json schema_of(const Tool& tool, const json& options) {
  json schema{{"type", "object"}, {"properties", json::object()}, {"required", json::array()}, {"additionalProperties", false}};
  for (const auto& input : tool.inputs) {
    if (input.kind == Kind::settings) schema["properties"].update(schema_of_settings(options));
    else schema["properties"][input.name] = schema_of(input);
    if (input.is_needed) schema["required"].push_back(input.name);
  }
  return schema;
}

bool is_of(const json& value, const Input& input) {
  switch (input.kind) {
    case Kind::text:
      return value.is_string() &&
             (input.choices.empty() || std::ranges::find(input.choices, value.get<std::string>()) != input.choices.end());
    case Kind::number: return value.is_number_unsigned();
    case Kind::truth: return value.is_boolean();
    case Kind::settings: return value.is_object();
    case Kind::texts_by_name: return value.is_object() && std::ranges::all_of(value, [](const json& text) { return text.is_string(); });
  }
  return false;
}

/// A config Error for arguments that the tool does not take.
void check(const Tool& tool, const json& arguments) {
  if (!arguments.is_object()) config_error("studio", "the arguments of {} must be an object", tool.name);
  std::vector<std::string> names;
  for (const auto& input : tool.inputs) {
    names.emplace_back(input.name);
    if (input.kind == Kind::settings) names.emplace_back("settings");
    if (input.is_needed && !arguments.contains(input.name))
      config_error("studio", "{} needs '{}': {}", tool.name, input.name, input.meaning);
    if (arguments.contains(input.name) && !is_of(arguments[input.name], input))
      config_error("studio", "'{}' of {} must be a {}{}", input.name, tool.name, schema_of(input)["type"].get<std::string>(),
                   input.choices.empty() ? "" : " among " + schema_of(input)["enum"].dump());
  }
  for (const auto& [name, value] : arguments.items()) {
    if (!contains(names, name))
      config_error("studio", "{} takes no '{}'; it takes {}", tool.name, one_line(name), names.empty() ? "nothing" : join(names));
  }
}

/// Whether it is a value of TOML as it is of JSON.
bool is_value(const json& value) {
  auto is_scalar = [](const json& one) { return one.is_string() || one.is_number() || one.is_boolean(); };
  return is_scalar(value) || (value.is_array() && std::ranges::all_of(value, is_scalar));
}

/// The path with the names in it, and the body of what the path does not name.
std::pair<std::string, json> request_of(const Tool& tool, const json& arguments) {
  std::string path = tool.path;
  json body = std::string(tool.method) == "POST" ? json::object() : json();
  for (const auto& input : tool.inputs) {
    if (input.kind == Kind::settings) body["settings"] = settings_text(arguments);
    if (input.kind == Kind::settings || !arguments.contains(input.name)) continue;
    const auto& value = arguments.at(input.name);
    const auto place = fmt::format("{{{}}}", input.name);
    const auto at = path.find(place);
    if (at != std::string::npos) path.replace(at, place.size(), in_address(value.is_string() ? value.get<std::string>() : value.dump()));
    else if (!body.is_null()) body[input.name] = value;
  }
  return {path, body};
}

json text_result(const std::string& text, bool is_error) {
  return {{"content", json::array({{{"type", "text"}, {"text", text}}})}, {"isError", is_error}};
}

/// What an assistant gets of an answer.
json result_of(const Tool& tool, const json& arguments, const Answered& answered) {
  if (answered.status == 0) return text_result("the studio does not answer; ask once more", true);
  if (answered.status == 200 && answered.media_type.starts_with("image/")) {
    if (answered.body.size() > kMostOfAPicture) return text_result("the picture is larger than 8 MiB", true);
    const auto url = report::data_url("", answered.body);
    return {{"content", json::array({{{"type", "image"}, {"data", url.substr(url.find(',') + 1)}, {"mimeType", answered.media_type}}})},
            {"isError", false}};
  }
  auto value = json::parse(answered.body, nullptr, /*allow_exceptions=*/false);
  if (answered.status != 200) {
    const bool says = value.is_object() && value.contains("sentence");
    return text_result(says ? value["sentence"].get<std::string>() : fmt::format("there is no such thing ({})", answered.status), true);
  }
  if (tool.chosen != nullptr) value = tool.chosen(value, arguments);
  if (value.is_array()) value = page_of(value, arguments);
  if (!value.is_object()) return text_result("the answer is of another kind than was asked for", true);
  auto result = text_result(value.dump(-1, ' ', false, json::error_handler_t::replace), false);
  result["structuredContent"] = std::move(value);
  return result;
}

}  // namespace

json describe(const std::vector<Tool>& tools, const json& options) {
  auto list = json::array();
  for (const auto& tool : tools) {
    list.push_back({{"name", tool.name},
                    {"description", tool.meaning},
                    {"inputSchema", schema_of(tool, options)},
                    {"annotations",
                     {{"readOnlyHint", tool.effect == Effect::reads},
                      {"destructiveHint", tool.effect == Effect::removes},
                      {"openWorldHint", false}}}});
  }
  return list;
}

std::string settings_text(const json& arguments) {
  std::string text;
  const auto options = arguments.value("options", json::object());
  for (const auto& [name, value] : options.items()) {
    const bool is_name = !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string::npos;
    if (!is_name) config_error("studio", "'{}' is no option; list_options lists them", one_line(name));
    if (!is_value(value)) config_error("studio", "the value of {} must be a text, a number, true or false, or a list of these", name);
    text += fmt::format("{} = {}\n", name, value.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  if (!arguments.contains("settings")) return text;
  if (!arguments["settings"].is_string()) config_error("studio", "settings must be a text of TOML");
  return text + arguments["settings"].get<std::string>();
}

json call(const Tool& tool, const json& arguments, const Ask& ask) {
  try {
    check(tool, arguments);
    const auto [path, body] = request_of(tool, arguments);
    return result_of(tool, arguments, ask(tool.method, path, body));
  } catch (const Error& error) {
    return text_result(without_source(error), true);
  } catch (const json::exception&) {
    return text_result("the studio answers otherwise than this program expects; is it of another version?", true);
  }
}

}  // namespace burnish::studio
