#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_model_routes(Routes& routes, Studio& studio) {
  const std::vector<Taken> name{{"name", Is::text}};
  routes.get("/api/models", [&studio](const Request&, Response& response) {
    answer(response, studio.program.json_of({"models", "--json"}));
  });
  routes.post("/api/models/size", name, [&studio](const Request& request, Response& response) {
    const auto said = studio.program.json_of({"models", "--json", "--", body_of(request).at("name").get<std::string>()});
    answer(response, said.at("models").at(0));
  });
  routes.get("/api/fetches", [&studio](const Request&, Response& response) { answer(response, studio.fetches.list()); });
  routes.post("/api/fetches", name, [&studio](const Request& request, Response& response) {
    studio.fetches.start(body_of(request).at("name").get<std::string>());
    done(response);
  });
  routes.post("/api/fetches/stop", name, [&studio](const Request& request, Response& response) {
    if (!studio.fetches.stop(body_of(request).at("name").get<std::string>())) return refuse(response, 409, "this model is not on its way");
    done(response);
  });
}

}  // namespace burnish::studio
