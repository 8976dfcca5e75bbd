#include "studio/routes.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_machine_routes(Routes& routes, Studio& studio) {
  routes.get("/api/machine", [&studio](const Request&, Response& response) { answer(response, studio.machine.state()); });
  routes.get("/api/machine/notes", [&studio](const Request&, Response& response) { answer(response, studio.machine.notes()); });
}

}  // namespace burnish::studio
