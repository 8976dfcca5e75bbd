#include <fmt/core.h>

#include "io/files.h"
#include "studio/bin.h"
#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

namespace {

/// A model of the workspace goes into the bin, one in the cache of a hub is deleted, and what is another program's stays.
void remove_model(Studio& studio, const Request& request, Response& response) {
  const auto name = body_of(request).at("name").get<std::string>();
  const auto root = studio.workspace.root();
  const auto path = (root / name).lexically_normal();
  if (io::is_there(path) || io::is_folder(path)) {
    const bool is_own = path.string().starts_with((root / "models" / "").string());
    if (!is_own) return refuse(response, 409, fmt::format("{} lies outside of the workspace's models/; delete it where it lies", name));
    return answer(response, {{"bin", throw_away(studio.workspace, path)}});
  }
  studio.program.json_of({"models", "--remove", "--json", "--", name});
  done(response);
}

}  // namespace

void add_model_routes(Routes& routes, Studio& studio) {
  const std::vector<Taken> name{{"name", Is::text}};
  routes.get("/api/models", [&studio](const Request&, Response& response) {
    answer(response, studio.program.json_of({"models", "--json"}));
  });
  routes.post("/api/models/size", name, [&studio](const Request& request, Response& response) {
    const auto said = studio.program.json_of({"models", "--json", "--", body_of(request).at("name").get<std::string>()});
    answer(response, said.at("models").at(0));
  });
  routes.post("/api/models/remove", name,
              [&studio](const Request& request, Response& response) { remove_model(studio, request, response); });
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
