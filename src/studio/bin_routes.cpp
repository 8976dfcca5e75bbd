#include "studio/bin.h"
#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_bin_routes(Routes& routes, Studio& studio) {
  routes.get("/api/bin", [&studio](const Request&, Response& response) { answer(response, list_bin(studio.workspace)); });
  routes.post("/api/bin/back", {{"id", Is::text}}, [&studio](const Request& request, Response& response) {
    bring_back(studio.workspace, body_of(request).at("id").get<std::string>());
    done(response);
  });
}

}  // namespace burnish::studio
