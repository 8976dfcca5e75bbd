#include <algorithm>

#include "io/files.h"
#include "studio/json_responses.h"
#include "studio/studio.h"

namespace burnish::studio {

using nlohmann::json;

void add_queue_routes(httplib::Server& http, Studio& studio) {
  auto& queue = studio.queue;
  http.Get("/api/queue", handled([&queue](const Request&, Response& response) {
             auto jobs = json::array();
             for (const auto& job : queue.jobs()) jobs.push_back(to_json(job));
             answer(response, {{"jobs", jobs}, {"at_once", queue.at_once()}, {"is_paused", queue.is_paused()}});
           }));
  http.Post("/api/queue/jobs", handled([&queue](const Request& request, Response& response) {
              const auto body = body_of(request);
              answer(response, to_json(queue.add(body.at("name").get<std::string>(), body.at("settings").get<std::string>(), false)));
            }));
  http.Post("/api/queue", handled([&queue](const Request& request, Response& response) {
              const auto body = body_of(request);
              queue.set(body.value("at_once", queue.at_once()), body.value("is_paused", queue.is_paused()));
              done(response);
            }));
  const std::string job = "/api/queue/jobs/([^/]+)";
  http.Get(job + "/settings", handled([&queue](const Request& request, Response& response) {
             const auto jobs = queue.jobs();
             const auto found = std::ranges::find(jobs, request.matches[1].str(), &Job::id);
             if (found == jobs.end()) return refuse(response, 404, "there is no such job");
             answer(response, {{"run", found->run}, {"text", io::read_text(queue.settings_of(found->id))}});
           }));
  http.Post(job + "/move", handled([&queue](const Request& request, Response& response) {
              if (!queue.move(request.matches[1], body_of(request).value("before", ""))) return refuse(response, 404, "no such job waits");
              done(response);
            }));
  http.Delete(job, handled([&queue](const Request& request, Response& response) {
                if (!queue.remove(request.matches[1])) return refuse(response, 404, "there is no such job, or it runs");
                done(response);
              }));
}

}  // namespace burnish::studio
