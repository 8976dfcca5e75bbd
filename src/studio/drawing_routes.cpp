#include "studio/bin.h"
#include "studio/choices.h"
#include "studio/routes.h"
#include "studio/studio.h"
#include "studio/workspace_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

/// A handler that is given the folder of the drawing which the address names; 404 where there is none.
template <typename Handle>
httplib::Server::Handler of_drawing(const Studio& studio, Handle handle) {
  return of_folder(studio.workspace.drawings(), "there is no such drawing", handle);
}

/// The members that a drawing is asked for with; "x", "y", "model" and "more" are the page's own, which fills its form from them again.
const std::vector<Taken> kWish{{"name", Is::text, false},
                               {"run", Is::text, false},
                               {"settings", Is::text, false},
                               {"loras", Is::list, false},
                               {"apart", Is::truth, false},
                               {"negative_prompt", Is::text, false},
                               {"prompts", Is::texts, false},
                               {"seeds", Is::list, false},
                               {"sizes", Is::list, false},
                               {"steps", Is::list, false},
                               {"guidance", Is::list, false},
                               {"strengths", Is::list, false},
                               {"without_blocks", Is::whole, false},
                               {"x", Is::text, false},
                               {"y", Is::text, false},
                               {"model", Is::text, false},
                               {"more", Is::object, false}};

const char* media_type(const fs::path& picture) {
  const auto ending = picture.extension();
  return ending == ".png" ? "image/png" : ending == ".webp" ? "image/webp" : ending == ".mp4" ? "video/mp4" : "video/webm";
}

}  // namespace

void add_drawing_routes(Routes& routes, Studio& studio) {
  auto& drawings = studio.drawings;
  const std::string drawing = "/api/drawings/NAME";
  routes.get("/api/drawings", [&drawings](const Request&, Response& response) { answer(response, drawings.list()); });
  routes.post("/api/drawings", kWish,
              [&drawings](const Request& request, Response& response) { answer(response, to_json(drawings.draw(body_of(request)))); });
  routes.get(drawing, of_drawing(studio, [&drawings](const fs::path& folder, const Request&, Response& response) {
               auto value = drawings.describe(folder);
               value["choices"] = choices_of(folder);
               answer(response, value);
             }));
  routes.get(drawing + "/FILE", of_drawing(studio, [](const fs::path& folder, const Request& request, Response& response) {
               const auto picture = Drawings::find_picture(folder, request.matches[2]);
               if (!picture) return refuse(response, 404, "there is no such picture");
               response.set_header("Cache-Control", "no-cache");
               send_file(*picture, response, media_type(*picture));
             }));
  routes.post(drawing + "/stop", {}, of_drawing(studio, [&drawings](const fs::path& folder, const Request&, Response& response) {
                if (!drawings.stop(folder.filename().string())) return refuse(response, 409, "this drawing has ended");
                done(response);
              }));
  routes.post(drawing + "/choices", {{"dataset", Is::text}, {"chosen", Is::whole}, {"rejected", Is::whole}},
              of_drawing(studio, [&studio](const fs::path& folder, const Request& request, Response& response) {
                choose(studio.workspace, folder, body_of(request));
                done(response);
              }));
  routes.remove(drawing, of_drawing(studio, [&studio](const fs::path& folder, const Request&, Response& response) {
                  if (!studio.drawings.forget(folder.filename().string()))
                    return refuse(response, 409, "this drawing goes on; stop it first");
                  answer(response, {{"bin", throw_away(studio.workspace, folder)}});
                }));
}

}  // namespace burnish::studio
