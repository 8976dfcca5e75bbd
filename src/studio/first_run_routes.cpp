#include "studio/json_responses.h"
#include "studio/prompts.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_first_run_routes(httplib::Server& http, Studio& studio) {
  http.Post("/api/demo", handled([&studio](const Request&, Response& response) {
              answer(response, {{"name", Demo(studio.options.demo).make_dataset(studio.workspace)}});
            }));
  http.Post("/api/prompts", handled([&studio](const Request& request, Response& response) {
              answer(response, {{"path", keep_prompts(studio.workspace, body_of(request).at("text").get<std::string>())}});
            }));
  http.Get("/api/prompts", handled([&studio](const Request& request, Response& response) {
             const auto text = kept_prompts(studio.workspace, request.get_param_value("path"));
             if (!text) return refuse(response, 404, "these prompts were not typed on a page of the studio");
             answer(response, {{"text", *text}});
           }));
}

}  // namespace burnish::studio
