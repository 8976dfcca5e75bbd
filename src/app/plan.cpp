#include <fmt/core.h>

#include "app/verbs.h"
#include "base/error.h"
#include "io/files.h"
#include "train/objective_kind.h"
#include "train/run.h"

namespace burnish::app {

void plan(const Arguments& arguments) {
  train::TrainOptions options;
  bool graph = false;
  std::string dot;
  config::Fields fields;
  train::fields(fields, options);
  fields.group("Plan");
  fields("graph", graph, "the units, what they depend on, and which of them run once");
  fields("dot", dot, "file to draw the graph into, for graphviz");
  auto parsed = config::read_command_line("plan", "say what a training run would do; takes the options of train", arguments, fields);
  options.given = parsed.given;
  if (parsed.help) return fmt::print("{}", parsed.help_text);
  if (!graph && dot.empty()) config_error("plan", "say what to plan: --graph prints the units and the cut, --dot FILE draws them");
  if (!train::is_whole(options)) config_error("plan", "the plan is that of a whole run; set task to {}", train::objective_of(options).word);
  auto made = train::plan(options);
  if (graph) fmt::print("{}", train::to_text(made));
  if (!dot.empty()) io::write_text_atomic(dot, train::to_dot(made));
}

}  // namespace burnish::app
