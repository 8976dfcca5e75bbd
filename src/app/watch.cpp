#include <fmt/core.h>

#include "app/verbs.h"
#include "base/input_error.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "report/server.h"

namespace burnish::app {

void watch(const Arguments& arguments) {
  std::vector<std::string> runs;
  int64_t port = 7878;
  config::Fields fields;
  fields.group("Runs");
  fields.positional("run", runs, "folders of training runs; several are compared");
  fields.group("Page");
  fields("port", port, "port of 127.0.0.1; 0 takes a free one");
  auto parsed = config::read_command_line("watch", "show runs in the browser while they go on", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  if (runs.empty()) config_error("watch", "no run given; name its folder, for example: burnish watch runs/cat");
  // Ctrl-C ends the program at once: nothing is written here.
  report::Server server(runs, port);
  print("http://127.0.0.1:{}/ shows {} (Ctrl-C ends it)\n", server.port(), join(runs));
  std::fflush(stdout);
  server.serve();
}

}  // namespace burnish::app
