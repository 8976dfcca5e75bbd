#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "base/typed_path.h"
#include "io/files.h"
#include "io/json.h"
#include "report/local_server.h"
#include "studio/pace.h"
#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Returns what `burnish import --json` makes of the first of the files that it can read as settings; the others may be named in that one.
/// All of them stay in a folder of imports/, with what could only be carried as a file.
json import_settings(Studio& studio, const json& files, const std::string& program) {
  if (!files.is_array() || files.empty()) config_error("studio", "no file came that settings could be read from");
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.at("name").get<std::string>());
  if (!std::ranges::all_of(names, is_name)) config_error("studio", "a file of settings has a name that is none here: {}", join(names));
  const auto folder = studio.workspace.imports() / free_name(studio.workspace.imports(), fs::path(names[0]).stem().string());
  const auto from = folder / "from";
  make_folder(from);
  for (const auto& file : files) io::write_text_atomic(from / file.at("name").get<std::string>(), file.at("text").get<std::string>());
  std::optional<Error> refusal;  // the first
  for (const auto& name : names) {
    try {
      std::vector<std::string> words{"import", (from / name).string(), "--output", (folder / "settings.toml").string(), "--json"};
      if (!program.empty()) words.push_back("--from=" + program);
      return studio.program.json_of(words);
    } catch (const Error& error) {
      if (!refusal) refusal = error;
    }
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  throw Error(*refusal);
}

/// What people want to make, beside recipes (goals.json): [{"title", "about", "recipes": a regular expression, "settings"}].
json goals_in(const fs::path& folder) {
  const auto file = folder / "goals.json";
  return io::is_there(file) ? io::read_json(file) : json::array();
}

/// [{"name", "title", "settings"}]: the title is the first words of its comment, up to the colon.
json recipes_in(const fs::path& folder) {
  auto recipes = json::array();
  if (folder.empty()) return recipes;
  for (const auto& path : io::glob(folder, "*.toml")) {
    const auto text = io::read_text(path);
    const auto line = text.substr(0, text.find('\n'));
    const auto title = line.starts_with("# ") ? line.substr(2, line.find(':') - 2) : path.stem().string();
    recipes.push_back({{"name", path.stem().string()}, {"title", title}, {"settings", text}});
  }
  return recipes;
}

/// Tells whether a folder can be made, or written into.
bool can_write_into(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  auto trial = (folder / ".burnish-XXXXXX").string();
  if (mkdtemp(trial.data()) == nullptr) return false;
  fs::remove(trial, error);
  return true;
}

/// Finds what a plan does not look at, and a run would fail by after it has begun: [{"option", "sentence"}]. Paths start where settings
/// lie.
json problems_of_places(const Studio& studio, const json& values) {
  auto problems = json::array();
  auto path_of = [&](const char* option) {
    const auto value = values.value(option, json());
    const auto text = value.is_string() ? value.get<std::string>() : "";
    return text.empty() ? fs::path() : (studio.workspace.queue() / typed_path(text)).lexically_normal();
  };
  const auto prompts = path_of("preview_prompts"), cache = path_of("cache_path");
  if (!prompts.empty() && !io::is_there(prompts))
    problems.push_back({{"option", "preview_prompts"},
                        {"sentence", fmt::format("preview_prompts names {}, which is not there; write a file with a prompt a line, or type "
                                                 "the prompts in the form",
                                                 prompts.string())}});
  if (!cache.empty() && !can_write_into(cache))
    problems.push_back(
        {{"option", "cache_path"},
         {"sentence", fmt::format("cache_path names {}, where nothing can be written; name another folder", cache.string())}});
  return problems;
}

}  // namespace

void add_form_routes(Routes& routes, Studio& studio) {
  const Taken settings{"settings", Is::text};
  routes.get("/api/studio", [&studio](const Request&, Response& response) {
    const auto& workspace = studio.workspace;
    answer(response, {{"folder", workspace.root().string()},
                      {"datasets", Workspace::names(workspace.datasets())},
                      {"demo", Demo(studio.options.demo).describe()}});
  });
  routes.get("/api/options",
             [&studio](const Request&, Response& response) { report::send_whole(response, studio.options.schema, "application/json"); });
  routes.get("/api/recipes", [&studio](const Request&, Response& response) {
    answer(response, {{"recipes", recipes_in(studio.options.recipes)}, {"goals", goals_in(studio.options.recipes)}});
  });
  routes.post("/api/import", {{"files", Is::list}, {"from", Is::text, false}}, [&studio](const Request& request, Response& response) {
    const auto body = body_of(request);
    answer(response, import_settings(studio, body.at("files"), body.value("from", "")));
  });
  routes.post("/api/form", {settings}, [&studio](const Request& request, Response& response) {
    answer(response, studio.options.form(body_of(request).at("settings").get<std::string>()));
  });
  routes.post("/api/plan", {settings, {"fit", Is::truth, false}, {"alone", Is::truth, false}, {"gpu", Is::whole, false}},
              [&studio](const Request& request, Response& response) {
                const auto body = body_of(request);
                const auto text = body.at("settings").get<std::string>();
                const bool wants_fit = body.value("fit", false), is_alone = !wants_fit && body.value("alone", false);
                const auto gpu = gpu_of(body);
                auto planned = studio.program.plan(text,
                                                   wants_fit  ? "fit"
                                                   : is_alone ? "alone"
                                                              : "",
                                                   gpu ? variables_of_gpu(std::to_string(*gpu)) : std::vector<std::string>());
                if (planned.contains("plan")) {
                  const auto values = studio.options.form(text).at("values");
                  if (const auto problems = problems_of_places(studio, values); !problems.empty())
                    return answer(response, {{"problems", problems}});
                  planned["pace"] = pace_of(planned["plan"], values, studio.workspace, studio.runs, studio.options.form);
                }
                answer(response, planned);
              });
}

}  // namespace burnish::studio
