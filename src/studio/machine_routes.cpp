#include "studio/json_responses.h"
#include "studio/studio.h"

namespace burnish::studio {

void add_machine_routes(httplib::Server& http, Studio& studio) {
  http.Get("/api/machine", handled([&studio](const Request&, Response& response) { answer(response, studio.machine.state()); }));
  http.Get("/api/machine/notes", handled([&studio](const Request&, Response& response) { answer(response, studio.machine.notes()); }));
}

}  // namespace burnish::studio
