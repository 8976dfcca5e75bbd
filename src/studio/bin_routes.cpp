#include "studio/bin.h"
#include "studio/json_responses.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_bin_routes(httplib::Server& http, Studio& studio) {
  http.Get("/api/bin", handled([&studio](const Request&, Response& response) { answer(response, list_bin(studio.workspace)); }));
  http.Post("/api/bin/back", handled([&studio](const Request& request, Response& response) {
              bring_back(studio.workspace, body_of(request).at("id").get<std::string>());
              done(response);
            }));
}

}  // namespace burnish::studio
