#include "studio/dataset_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;

void add_annotation_routes(Routes& routes, Studio& studio) {
  auto& annotations = studio.annotations;
  routes.get("/api/annotations", [&annotations](const Request&, Response& response) { answer(response, annotations.list()); });
  routes.post("/api/datasets/NAME/annotations", {{"verb", Is::text}, {"settings", Is::text, false}},
              of_dataset(studio, [&annotations](const fs::path& folder, const Request& request, Response& response) {
                const auto body = body_of(request);
                answer(response, to_json(annotations.add(folder, body.at("verb").get<std::string>(), body.value("settings", ""))));
              }));
  routes.remove("/api/annotations/ID", [&annotations](const Request& request, Response& response) {
    if (!annotations.end(request.matches[1])) return refuse(response, 404, "there is no such work on a dataset");
    done(response);
  });
}

}  // namespace burnish::studio
