#include <fmt/core.h>

#include "app/verbs.h"
#include "base/error.h"
#include "io/files.h"
#include "train/objective_kind.h"
#include "train/run.h"

namespace burnish::app {

void plan(const Arguments& arguments) {
  train::TrainOptions options;
  bool graph = false, json = false, fit = false;
  int64_t processes = 1;
  std::string dot;
  config::Fields fields;
  train::fields(fields, options);
  fields.group("Plan");
  fields("fit", fit, "look for the options that cost least speed and stay within device_memory and host_memory");
  fields("processes", processes, "of so many processes that train together, say what the first needs of its device");
  fields("json", json, "print the memory that the run needs as JSON");
  fields("graph", graph, "the units, what they depend on, and which of them run once; runs those on the first samples for what they cost");
  fields("dot", dot, "file to draw the graph into, for graphviz");
  auto parsed = config::read_command_line("plan", "say what a training run needs and does; takes the options of train", arguments, fields);
  options.given = parsed.given;
  if (parsed.help) return fmt::print("{}", parsed.help_text);
  if (processes < 1) config_error("plan", "processes must be at least 1, not {}", processes);
  if (!train::is_whole(options)) config_error("plan", "the plan is that of a whole run; set task to {}", train::objective_of(options).word);
  if (!graph && dot.empty()) {
    options.model.is_plan = true;
    auto advice = train::advise(options, {.num_processes = processes}, fit);
    return fmt::print("{}", json ? train::to_json(advice) : train::to_text(advice));
  }
  auto made = train::plan(options);
  if (graph) fmt::print("{}", train::to_text(made));
  if (!dot.empty()) io::write_text_atomic(dot, train::to_dot(made));
}

}  // namespace burnish::app
