#include <fmt/core.h>

#include "app/verbs.h"
#include "base/say.h"
#include "config/command_line.h"
#include "report/page.h"

namespace burnish::app {

void report(const Arguments& arguments) {
  report::ReportOptions options;
  config::Fields fields;
  fields.group("Runs");
  fields.positional("run", options.runs, "folders of training runs; several are compared");
  fields.group("Page");
  fields.path("output", options.output, "file to write; report.html in the first run without it");
  fields("picture_size", options.picture_size, "pixels of a preview's longer side, at most; 0 puts pictures in as they are");
  auto parsed = config::read_command_line("report", "write one page about runs: curves, previews, settings", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  print("{}\n", report::write_report(options).string());
}

}  // namespace burnish::app
