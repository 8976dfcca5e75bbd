#include "studio/dataset_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;

void add_annotation_routes(httplib::Server& http, Studio& studio) {
  auto& annotations = studio.annotations;
  http.Get("/api/annotations", handled([&annotations](const Request&, Response& response) { answer(response, annotations.list()); }));
  http.Post(std::string(kDataset) + "/annotations",
            of_dataset(studio, [&annotations](const fs::path& folder, const Request& request, Response& response) {
              const auto body = body_of(request);
              answer(response, to_json(annotations.add(folder, body.at("verb").get<std::string>(), body.value("settings", ""))));
            }));
  http.Delete("/api/annotations/([^/]+)", handled([&annotations](const Request& request, Response& response) {
                if (!annotations.end(request.matches[1])) return refuse(response, 404, "there is no such work on a dataset");
                done(response);
              }));
}

}  // namespace burnish::studio
