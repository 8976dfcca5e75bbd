#include "records/previews.h"
#include "studio/routes.h"
#include "studio/studio.h"
#include "studio/workspace_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

/// Lists the numbers of a run's previews that are pictures, by their steps.
nlohmann::json previews_of(const fs::path& run) {
  auto steps = nlohmann::json::object();
  for (const auto& preview : records::find_previews(run)) {
    const bool is_shown = preview.kind == records::PreviewKind::png || preview.kind == records::PreviewKind::webp;
    if (is_shown) steps[std::to_string(preview.step)].push_back(preview.number);
  }
  return steps;
}

}  // namespace

void add_ranking_routes(Routes& routes, Studio& studio) {
  const std::string ranking = "/api/runs/NAME/best";
  auto of_run = [&studio](auto handle) { return of_folder(studio.workspace.runs(), "there is no such run", handle); };
  routes.get(ranking, of_run([&studio](const fs::path& run, const Request&, Response& response) {
               auto standing = studio.runs.rankings().standing(run.filename().string());
               standing["previews"] = previews_of(run);
               answer(response, standing);
             }));
  routes.post(ranking, {{"model", Is::texts, false}}, of_run([&studio](const fs::path& run, const Request& request, Response& response) {
                studio.runs.rankings().start(run, body_of(request).value("model", std::vector<std::string>()));
                done(response);
              }));
  routes.post(ranking + "/stop", {}, of_run([&studio](const fs::path& run, const Request&, Response& response) {
                if (!studio.runs.rankings().stop(run.filename().string()))
                  return refuse(response, 409, "the saves of this run are not being ranked");
                done(response);
              }));
}

}  // namespace burnish::studio
