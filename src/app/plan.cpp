#include <fmt/core.h>

#include "app/json_refusal.h"
#include "app/train_options.h"
#include "app/verbs.h"
#include "base/input_error.h"
#include "base/limits.h"
#include "base/say.h"
#include "config/problems.h"
#include "io/files.h"
#include "train/options/fields.h"
#include "train/options/objective_options.h"
#include "train/run/run.h"

namespace burnish::app {

namespace {

/// Holds what a plan may be asked beside the options of train.
struct PlanOptions {
  train::TrainOptions train;
  bool graph = false, json = false, fit = false, alone = false;
  int64_t processes = 1, nodes = 1;
  double tflops = 400;
  std::string dot, link, local_link = "80Gb";

  bool is_of_memory() const { return !graph && dot.empty(); }
};

/// Lists the options that only plan has.
void plan_fields(config::Fields& f, PlanOptions& o) {
  f.group("Plan", config::Level::first_run);
  f("fit", o.fit, "look for the options that cost least speed and stay within device_memory and host_memory");
  f("alone", o.alone, "the plan alone, without what would take less, which takes as many plans as are listed");
  f("processes", o.processes, "of so many processes that train together, say what the first needs of its device")
      .at_least(1)
      .at_most(kMostProcesses);
  f("nodes", o.nodes, "machines that they are on, as many on each").at_least(1).at_most(kMostProcesses);
  f("link", o.link,
    "rate between machines, as 400Gb (bits a second) or 50GB (bytes): adds steps, waits and memory of 1 to 1024 processes as a model "
    "computes them");
  f("local_link", o.local_link, "for link, the rate between processes of a machine");
  f("tflops", o.tflops, "for link, what a device computes in fact, in 10^12 operations a second");
  f("json", o.json, "print the memory that the run needs as JSON");
  f("graph", o.graph, "the units, what they depend on, and which of them run once; runs those on the first samples for what they cost");
  f.path("dot", o.dot, "file to draw the graph into, for graphviz");
}

void check(PlanOptions& o) {
  config::Fields own;
  plan_fields(own, o);
  config::Problems problems(own);
  problems.check_values();
  if (o.nodes >= 1 && o.processes % o.nodes != 0) problems.add("nodes must divide the {} processes, not be {}", o.processes, o.nodes);
  if (o.alone && o.fit) problems.add("fit looks for what would take less, and alone leaves it out; give one of them");
  if (!(o.tflops > 0)) problems.add("tflops must be above 0, not {}", o.tflops);
  if (o.nodes > 1 && o.link.empty()) problems.add("nodes belongs to link, the rate between them; for example --link 400Gb");
  problems.refuse("plan");
  if (!train::is_whole(o.train)) config_error("plan", "the plan is that of a whole run; set task to {}", train::objective_of(o.train).word);
}

train::Machines machines_of(const PlanOptions& o) {
  train::Machines machines{.processes_each = o.processes / o.nodes, .flops = 1e12 * o.tflops};
  if (o.link.empty()) return machines;
  machines.link = train::parse_rate("link", o.link);
  machines.local_link = train::parse_rate("local_link", o.local_link);
  return machines;
}

void print_memory(const PlanOptions& o, const train::Machines& machines) {
  const auto settings = train::understood(train::with_format(o.train));
  auto advice = train::advise(train::shared_out(settings, {.num_processes = o.processes}), {.changes = !o.alone, .fit = o.fit});
  if (!o.link.empty()) advice.scaling = train::scaling(settings, machines, [](const auto& one) { return train::plan_memory(one); });
  print("{}", o.json ? train::to_json(advice) : train::to_text(advice));
}

void run(const Arguments& arguments, PlanOptions& o) {
  config::Fields listed;
  train::fields(listed, o.train);
  plan_fields(listed, o);
  auto prepare = [&o] { o.train.model.is_plan = o.is_of_memory(); };
  auto parsed =
      read_train_options("plan", "say what a training run needs and does; takes the options of train", arguments, listed, o.train, prepare);
  if (parsed.help) return print("{}", parsed.help_text);
  prepare();
  check(o);
  const auto machines = machines_of(o);
  if (o.is_of_memory()) return print_memory(o, machines);
  auto made = train::plan(o.train, {.num_processes = o.processes});
  if (o.graph) print("{}", train::to_text(made));
  if (!o.dot.empty()) io::write_text_atomic(o.dot, train::to_dot(made));
}

}  // namespace

void plan(const Arguments& arguments) {
  PlanOptions options;
  refusing_in_json([&] { return options.json && options.is_of_memory(); }, [&] { run(arguments, options); });
}

}  // namespace burnish::app
