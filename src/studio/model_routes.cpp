#include "studio/json_responses.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_model_routes(httplib::Server& http, Studio& studio) {
  http.Get("/api/models", handled([&studio](const Request&, Response& response) {
             answer(response, studio.program.json_of({"models", "--json"}));
           }));
  http.Post("/api/models/size", handled([&studio](const Request& request, Response& response) {
              const auto said = studio.program.json_of({"models", "--json", "--", body_of(request).at("name").get<std::string>()});
              answer(response, said.at("models").at(0));
            }));
  http.Get("/api/fetches", handled([&studio](const Request&, Response& response) { answer(response, studio.fetches.list()); }));
  http.Post("/api/fetches", handled([&studio](const Request& request, Response& response) {
              studio.fetches.start(body_of(request).at("name").get<std::string>());
              done(response);
            }));
  http.Post("/api/fetches/stop", handled([&studio](const Request& request, Response& response) {
              if (!studio.fetches.stop(body_of(request).at("name").get<std::string>()))
                return refuse(response, 409, "this model is not on its way");
              done(response);
            }));
}

}  // namespace burnish::studio
