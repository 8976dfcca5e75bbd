#include <algorithm>
#include <optional>
#include <system_error>

#include "io/files.h"
#include "io/last_lines.h"
#include "records/asked.h"
#include "records/learned_samples.h"
#include "studio/bin.h"
#include "studio/routes.h"
#include "studio/run_samples.h"
#include "studio/studio.h"
#include "studio/workspace_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kMostOfALog = 64 << 10;  // that a page shows
constexpr const char* kRun = "/api/runs/NAME";
constexpr const char* kNoRun = "there is no such run";

/// A handler that is given the folder of the run which the address names; 404 where there is none.
template <typename Handle>
httplib::Server::Handler of_run(const Studio& studio, Handle handle) {
  return of_folder(studio.workspace.runs(), kNoRun, handle);
}

/// The same of a run that does not go on; 409 where it does.
template <typename Handle>
httplib::Server::Handler of_ended_run(const Studio& studio, Handle handle) {
  return of_run(studio, [handle](const fs::path& run, const Request& request, Response& response) {
    if (!io::FolderClaim(run).held()) return refuse(response, 409, "this run goes on; stop it first");
    handle(run, request, response);
  });
}

/// Tells whether pictures or captions were changed after a run had read them: what was saved of it does not go on with others.
bool is_data_changed(Studio& studio, const fs::path& run) {
  const auto settings = run / "config.toml";
  const auto began = studio.runs.one(run.filename().string()).value("started", 0.0);
  if (!io::is_there(settings) || began <= 0) return false;
  const auto values = studio.options.form(io::read_text(settings)).value("values", json::object());
  auto latest = 0.0;
  for (const char* option : {"dataset_base_path", "dataset_metadata_path", "dataset_config"}) {
    const auto path = values.value(option, json());
    if (path.is_string() && !path.get_ref<const std::string&>().empty())
      latest = std::max(latest, changed_at(run / path.get<std::string>()));
  }
  return latest > began;
}

/// Says which pictures a run learned badly, and which it knows by heart; those of a dataset by the names that they have there.
json learned_of(Studio& studio, const fs::path& run) {
  const auto dataset = dataset_of(studio, run);
  json samples = json::array();
  if (!io::is_there(records::visits_path(run))) return {{"visits", 0}, {"dataset", dataset}, {"samples", samples}};
  const auto learned = records::learned_samples(run);
  for (const auto& one : learned.all) {
    if (!one.stands_out()) continue;
    samples.push_back(to_json(one));
    name_item(studio, dataset, samples.back());
  }
  return {{"visits", learned.num_visits}, {"dataset", dataset}, {"samples", samples}};
}

/// Adds the routes that read a run.
void add_readers(Routes& routes, Studio& studio) {
  routes.get("/api/runs", [&studio](const Request&, Response& response) { answer(response, studio.runs.list()); });
  const std::string run = kRun;
  routes.get(run, of_run(studio, [&studio](const fs::path& folder, const Request&, Response& response) {
               answer(response, studio.runs.one(folder.filename().string()));
             }));
  routes.get(run + "/settings", of_run(studio, [](const fs::path& folder, const Request&, Response& response) {
               const auto path = folder / "config.toml";
               answer(response, {{"text", io::is_there(path) ? io::read_text(path) : ""}});
             }));
  routes.get(run + "/changes", of_run(studio, [&studio](const fs::path& folder, const Request&, Response& response) {
               answer(response, {{"data_changed", is_data_changed(studio, folder)}});
             }));
  routes.get(run + "/pictures", of_run(studio, [&studio](const fs::path& folder, const Request&, Response& response) {
               answer(response, learned_of(studio, folder));
             }));
  routes.get(run + "/log", [&studio](const Request& request, Response& response) {
    const std::string name = request.matches[1];
    const auto job = studio.queue.of_run(name);
    if (!job && !Workspace::find(studio.workspace.runs(), name)) return refuse(response, 404, kNoRun);
    answer(response, {{"text", job ? io::last_lines(studio.queue.log_of(job->id), kMostOfALog) : ""}});
  });
  routes.get(run + "/files", of_run(studio, [](const fs::path& folder, const Request&, Response& response) {
               auto files = json::array();
               for (const auto& path : io::glob(folder, "*.safetensors")) {
                 std::error_code ignored;
                 files.push_back({{"name", path.filename().string()}, {"bytes", fs::file_size(path, ignored)}});
               }
               answer(response, files);
             }));
  routes.get(run + "/files/FILE", of_run(studio, [](const fs::path& folder, const Request& request, Response& response) {
               const std::string name = request.matches[2];
               if (!is_name(name) || !name.ends_with(".safetensors") || !io::is_there(folder / name))
                 return refuse(response, 404, "there is no such file");
               send_file(folder / name, response);
             }));
}

/// What is asked of a run that goes on, and of its process.
void add_wishes(Routes& routes, Studio& studio) {
  const std::string run = kRun;
  routes.post(run + "/ask", {{"what", Is::text}}, of_run(studio, [](const fs::path& folder, const Request& request, Response& response) {
                records::ask(folder, body_of(request).at("what").get<std::string>());
                done(response);
              }));
  routes.post(run + "/archive", {{"is_archived", Is::truth}},
              of_run(studio, [](const fs::path& folder, const Request& request, Response& response) {
                archive(folder, body_of(request).at("is_archived").get<bool>());
                done(response);
              }));
  routes.post(run + "/notes", {{"text", Is::text}}, of_run(studio, [](const fs::path& folder, const Request& request, Response& response) {
                note(folder, body_of(request).at("text").get<std::string>());
                done(response);
              }));
  routes.post(run + "/tags", {{"tags", Is::texts}}, of_run(studio, [](const fs::path& folder, const Request& request, Response& response) {
                tag(folder, body_of(request).at("tags").get<std::vector<std::string>>());
                done(response);
              }));
  routes.post(run + "/stop", {}, of_run(studio, [](const fs::path& folder, const Request&, Response& response) {
                if (!interrupt(folder)) return refuse(response, 409, "this run is not known to run on this machine");
                done(response);
              }));
}

/// A run goes on with the settings that it had, or with those of the body: more steps, say.
void resume(Studio& studio, const fs::path& folder, const Request& request, Response& response) {
  if (!io::is_there(folder / "config.toml") || !io::is_folder(folder / "state"))
    return refuse(response, 409, "nothing was saved here that a run could go on from");
  const auto given = body_of(request).value("settings", "");
  const auto run = folder.filename().string();
  const auto before = studio.queue.of_run(run);
  const auto job = studio.queue.add(run, given.empty() ? io::read_text(folder / "config.toml") : given, /*resumes=*/true,
                                    /*are_its_own=*/given.empty(), {}, before ? before->gpu : std::nullopt);
  answer(response, to_json(job));
}

/// Takes the jobs that made a run, which is not there any more under that name, out of the queue.
void forget_jobs(Studio& studio, const std::string& run) {
  for (const auto& job : studio.queue.jobs()) {
    if (job.run == run) studio.queue.remove(job.id);
  }
  for (auto* about : {&studio.runs.rankings(), &studio.runs.cards(), &studio.runs.captions(), &studio.runs.gradients()}) about->forget(run);
}

void rename(Studio& studio, const fs::path& folder, const Request& request, Response& response) {
  const auto name = body_of(request).at("name").get<std::string>();
  if (!is_name(name)) return refuse(response, 400, "names have no slashes, begin with no dot, and are at most 100 bytes long");
  if (!move_new(folder, studio.workspace.runs() / name)) return refuse(response, 409, "there is a run of that name");
  forget_jobs(studio, folder.filename().string());
  done(response);
}

}  // namespace

void add_run_routes(Routes& routes, Studio& studio) {
  add_readers(routes, studio);
  add_wishes(routes, studio);
  const std::string run = kRun;
  routes.post(run + "/resume", {{"settings", Is::text, false}},
              of_ended_run(studio, [&studio](const fs::path& folder, const Request& request, Response& response) {
                resume(studio, folder, request, response);
              }));
  routes.post(run + "/rename", {{"name", Is::text}},
              of_ended_run(studio, [&studio](const fs::path& folder, const Request& request, Response& response) {
                rename(studio, folder, request, response);
              }));
  routes.remove(run, of_ended_run(studio, [&studio](const fs::path& folder, const Request&, Response& response) {
                  forget_jobs(studio, folder.filename().string());
                  answer(response, {{"bin", throw_away(studio.workspace, folder)}});
                }));
}

}  // namespace burnish::studio
