#include <fmt/core.h>

#include <functional>

#include "app/train_options.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/say.h"
#include "config/problems.h"
#include "io/files.h"
#include "train/options/fields.h"
#include "train/options/objective_options.h"
#include "train/run/run.h"

namespace burnish::app {

namespace {

/// What is wrong with the options is said in the language in which the plan was asked for.
void say_in(bool json, const std::function<void()>& print) {
  try {
    print();
  } catch (const config::Refusal& refusal) {
    if (json) print("{}", config::to_json(refusal.problems()));
    throw;
  }
}

}  // namespace

void plan(const Arguments& arguments) {
  train::TrainOptions options;
  bool graph = false, json = false, fit = false;
  int64_t processes = 1, nodes = 1;
  double tflops = 400;
  std::string dot, link, local_link = "80Gb";
  config::Fields fields;
  train::fields(fields, options);
  fields.group("Plan", config::Level::first_run);
  fields("fit", fit, "look for the options that cost least speed and stay within device_memory and host_memory");
  fields("processes", processes, "of so many processes that train together, say what the first needs of its device");
  fields("nodes", nodes, "machines that they are on, as many on each");
  fields("link", link,
         "rate between machines, as 400Gb (bits a second) or 50GB (bytes): adds steps, waits and memory of 1 to 1024 processes as a model "
         "computes them");
  fields("local_link", local_link, "for link, the rate between processes of a machine");
  fields("tflops", tflops, "for link, what a device computes in fact, in 10^12 operations a second");
  fields("json", json, "print the memory that the run needs as JSON");
  fields("graph", graph, "the units, what they depend on, and which of them run once; runs those on the first samples for what they cost");
  fields("dot", dot, "file to draw the graph into, for graphviz");
  auto parsed =
      read_train_options("plan", "say what a training run needs and does; takes the options of train", arguments, fields, options);
  if (parsed.help) return print("{}", parsed.help_text);
  if (processes < 1) config_error("plan", "processes must be at least 1, not {}", processes);
  if (nodes < 1 || processes % nodes != 0) config_error("plan", "nodes must divide the {} processes, not be {}", processes, nodes);
  if (!(tflops > 0)) config_error("plan", "tflops must be above 0, not {}", tflops);
  if (nodes > 1 && link.empty()) config_error("plan", "nodes belongs to link, the rate between them; for example --link 400Gb");
  train::Machines machines{.processes_each = processes / nodes, .flops = 1e12 * tflops};
  if (!link.empty()) {
    machines.link = train::parse_rate("link", link);
    machines.local_link = train::parse_rate("local_link", local_link);
  }
  if (!train::is_whole(options)) config_error("plan", "the plan is that of a whole run; set task to {}", train::objective_of(options).word);
  if (!graph && dot.empty()) {
    options.model.is_plan = true;
    return say_in(json, [&] {
      auto advice = train::advise(options, {.num_processes = processes}, fit);
      if (!link.empty()) advice.scaling = train::scaling(options, machines, train::plan_memory);
      print("{}", json ? train::to_json(advice) : train::to_text(advice));
    });
  }
  auto made = train::plan(options, {.num_processes = processes});
  if (graph) print("{}", train::to_text(made));
  if (!dot.empty()) io::write_text_atomic(dot, train::to_dot(made));
}

}  // namespace burnish::app
