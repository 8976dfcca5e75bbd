#include <algorithm>

#include "io/files.h"
#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

using nlohmann::json;

namespace {

json list(const Queue& queue) {
  auto jobs = json::array();
  for (const auto& job : queue.jobs()) jobs.push_back(to_json(job));
  return {{"jobs", jobs}, {"at_once", queue.at_once()}, {"is_paused", queue.is_paused()}};
}

}  // namespace

void add_queue_routes(Routes& routes, Studio& studio) {
  auto& queue = studio.queue;
  routes.get("/api/queue", [&queue](const Request&, Response& response) { answer(response, list(queue)); });
  const std::vector<Taken> job{
      {"name", Is::text}, {"settings", Is::text}, {"steps", Is::whole, false}, {"seconds", Is::whole, false}, {"gpu", Is::whole, false}};
  routes.post("/api/queue/jobs", job, [&queue](const Request& request, Response& response) {
    const auto body = body_of(request);
    const Expected expected{.steps = body.value("steps", int64_t{0}), .seconds = static_cast<double>(body.value("seconds", int64_t{0}))};
    answer(response, to_json(queue.add(body.at("name").get<std::string>(), body.at("settings").get<std::string>(), /*resumes=*/false,
                                       /*are_its_own=*/false, expected, gpu_of(body))));
  });
  routes.post("/api/queue", {{"at_once", Is::whole, false}, {"is_paused", Is::truth, false}},
              [&queue](const Request& request, Response& response) {
                const auto body = body_of(request);
                queue.set(body.value("at_once", queue.at_once()), body.value("is_paused", queue.is_paused()));
                done(response);
              });
  routes.get("/api/queue/jobs/ID/settings", [&queue](const Request& request, Response& response) {
    const auto jobs = queue.jobs();
    const auto found = std::ranges::find(jobs, request.matches[1].str(), &Job::id);
    if (found == jobs.end()) return refuse(response, 404, "there is no such job");
    answer(response, {{"run", found->run}, {"text", io::read_text(queue.settings_of(found->id))}});
  });
  routes.post("/api/queue/jobs/ID/move", {{"before", Is::text, false}}, [&queue](const Request& request, Response& response) {
    if (!queue.move(request.matches[1], body_of(request).value("before", ""))) return refuse(response, 404, "no such job waits");
    done(response);
  });
  routes.remove("/api/queue/jobs/ID", [&queue](const Request& request, Response& response) {
    if (!queue.remove(request.matches[1])) return refuse(response, 404, "there is no such job, or it runs");
    done(response);
  });
}

}  // namespace burnish::studio
