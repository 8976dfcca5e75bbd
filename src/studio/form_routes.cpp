#include "io/files.h"
#include "report/local_server.h"
#include "studio/answers.h"
#include "studio/studio.h"

namespace burnish::studio {

using nlohmann::json;

void add_form_routes(httplib::Server& http, Studio& studio) {
  http.Get("/api/studio", handled([&studio](const Request&, Response& response) {
             const auto& workspace = studio.workspace;
             answer(response, {{"folder", workspace.root().string()}, {"datasets", Workspace::names(workspace.datasets())}});
           }));
  http.Get("/api/options", handled([&studio](const Request&, Response& response) {
             report::send_whole(response, studio.options.schema, "application/json");
           }));
  http.Get("/api/recipes", handled([&studio](const Request&, Response& response) {
             auto recipes = json::array();
             for (const auto& path :
                  studio.options.recipes.empty() ? std::vector<std::filesystem::path>() : io::glob(studio.options.recipes, "*.toml"))
               recipes.push_back({{"name", path.stem().string()}, {"settings", io::read_text(path)}});
             answer(response, recipes);
           }));
  http.Post("/api/form", handled([&studio](const Request& request, Response& response) {
              answer(response, studio.options.form(body_of(request).at("settings").get<std::string>()));
            }));
  http.Post("/api/plan", handled([&studio](const Request& request, Response& response) {
              const auto body = body_of(request);
              answer(response, studio.program.plan(body.at("settings").get<std::string>(), body.value("fit", false)));
            }));
}

}  // namespace burnish::studio
