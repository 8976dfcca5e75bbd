#include "studio/prompts.h"
#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_first_run_routes(Routes& routes, Studio& studio) {
  routes.post("/api/demo", {}, [&studio](const Request&, Response& response) {
    answer(response, {{"name", Demo(studio.options.demo).make_dataset(studio.workspace)}});
  });
  routes.post("/api/prompts", {{"text", Is::text}}, [&studio](const Request& request, Response& response) {
    answer(response, {{"path", keep_prompts(studio.workspace, body_of(request).at("text").get<std::string>())}});
  });
  routes.get("/api/prompts", [&studio](const Request& request, Response& response) {
    const auto text = kept_prompts(studio.workspace, request.get_param_value("path"));
    if (!text) return refuse(response, 404, "these prompts were not typed on a page of the studio");
    answer(response, {{"text", *text}});
  });
}

}  // namespace burnish::studio
