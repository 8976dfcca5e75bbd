#include "app/together.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"

namespace burnish::app {

namespace {

/// A launcher starts as many processes as a machine has devices; each takes the one of its number.
void share_machine(train::TrainOptions& options, const dist::Place& place) {
  auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  if (options.model.num_threads == 0) options.model.num_threads = std::max<int64_t>(1, cores / place.local_size);
  if (options.model.device == "cuda") options.model.device = fmt::format("cuda:{}", place.local_rank);
}

/// Ends this process at once: threads of collectives whose other side is gone cannot be called back.
[[noreturn]] void end(const dist::World& world, const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  auto code = error == nullptr ? Exit::internal : error->code();
  bool tells = world.fail(without_source(failure));
  if (tells || (code == Exit::interrupted && world.is_first())) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", failure.what());
  }
  std::fflush(nullptr);
  _exit(static_cast<int>(code));
}

}  // namespace

void run_together(train::TrainOptions& options, const char* answer, const std::function<void(const dist::World&)>& work) {
  auto place = dist::find_place(dist::of_process);
  bool is_first = place.rank == 0;
  watch_for_interrupt(is_first ? answer : "");
  if (!is_first) spdlog::set_level(std::max(spdlog::get_level(), spdlog::level::err));
  if (place.size == 1) return work(dist::World());
  share_machine(options, place);
  dist::World world(place);
  info("{} processes, started by {}", place.size, place.launcher);
  try {
    work(world);
    world.leave();
  } catch (const std::exception& failure) {
    end(world, failure);
  }
}

}  // namespace burnish::app
