#include "app/best_options.h"
#include "app/json_refusal.h"
#include "app/judged_run.h"
#include "app/verbs.h"
#include "base/interrupt.h"
#include "base/say.h"
#include "config/command_line.h"

namespace burnish::app {

namespace {

void run(const Arguments& arguments, BestOptions& o) {
  config::Fields listed;
  fields(listed, o);
  const auto parsed = config::read_command_line("best", "say which save of a run is best, and where overfitting began", arguments, listed,
                                                [&] { check(o); });
  if (parsed.help) return print("{}", parsed.help_text);
  check(o);
  watch_for_interrupt("interrupted: ends after this picture");
  const auto judged = judge(o);
  if (o.seen_by.json) return print("{}\n", json_of(judged).dump(2));
  print("{}", text_of(judged, o.runs.front()));
}

}  // namespace

void best(const Arguments& arguments) {
  BestOptions options;
  refusing_in_json([&] { return options.seen_by.json; }, [&] { run(arguments, options); });
}

}  // namespace burnish::app
