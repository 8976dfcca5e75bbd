#include <fmt/core.h>

#include "app/verbs.h"
#include "base/error.h"
#include "config/fields.h"
#include "report/server.h"

namespace burnish::app {

void watch(const Arguments& arguments) {
  std::vector<std::string> runs;
  int64_t port = 7878;
  config::Fields fields;
  fields.group("Run");
  fields.positional("run", runs, "folder of a training run");
  fields.group("Page");
  fields("port", port, "port of 127.0.0.1; 0 takes a free one");
  auto parsed = config::read_command_line("watch", "show a run in the browser while it goes on", arguments, fields);
  if (parsed.help) return fmt::print("{}", parsed.help_text);
  if (runs.size() != 1)
    config_error("watch", "{}; name one folder, for example: burnish watch runs/cat",
                 runs.empty() ? "no run given" : fmt::format("{} runs given", runs.size()));
  // Ctrl-C ends the program at once: nothing is written here.
  report::Server server(runs[0], port);
  fmt::print("http://127.0.0.1:{}/ shows {} (Ctrl-C ends it)\n", server.port(), runs[0]);
  std::fflush(stdout);
  server.serve();
}

}  // namespace burnish::app
