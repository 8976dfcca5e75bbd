#include "app/together.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/failure.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/say.h"

namespace burnish::app {

namespace {

/// torchrun prints it as the cause, with --max-restarts it starts all of them again.
void write_error_file(const std::string& sentence) {
  auto path = dist::of_process("TORCHELASTIC_ERROR_FILE");
  if (!path || path->empty()) return;
  auto now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  nlohmann::json message{{"message", sentence}, {"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(now)}}}};
  std::ofstream(*path) << nlohmann::json{{"message", message}};
}

/// Ends this process at once: threads of collectives whose other side is gone cannot be called back.
[[noreturn]] void end(const dist::World& world, const records::StatusFile& status, const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  auto code = error == nullptr ? Exit::internal : error->code();
  status.end(code, without_source(failure));
  bool tells = world.fail(without_source(failure));
  if (tells || (code == Exit::interrupted && world.is_first())) {
    std::fflush(stdout);
    tell(stderr, "{}\n", failure.what());
    write_error_file(failure.what());
  }
  status.tell_end();  // which another process may cut short; commands go on by themselves
  std::fflush(nullptr);
  _exit(static_cast<int>(code));
}

void run_alone(const std::function<void(const dist::World&, records::StatusFile&)>& work) {
  records::StatusFile status;
  try {
    work(dist::World(), status);
    status.tell_end();
  } catch (const std::exception& error) {
    auto failure = failure_of(error);
    status.end(failure.code, failure.sentence);
    status.tell_end();
    throw;
  }
}

}  // namespace

void run_together(const char* verb, train::TrainOptions& options, const char* answer,
                  const std::function<void(const dist::World&, records::StatusFile&)>& work) {
  auto seat = dist::find_seat(dist::of_process);
  bool is_first = seat.rank == 0;
  watch_for_interrupt(is_first ? answer : "");
  if (!is_first) spdlog::set_level(std::max(spdlog::get_level(), spdlog::level::err));
  if (seat.size == 1) return run_alone(work);
  options.model.local_rank = seat.local_rank;
  options.model.local_size = seat.local_size;
  std::signal(SIGPIPE, SIG_IGN);  // a connection whose other side is gone is an error of the collective, which has a message
  dist::World world(seat);
  records::StatusFile status;
  try {
    world.join(train::model_options(options.model).device);
    world.agree("verbs", verb);
    info("{} processes train together", seat.size);
    work(world, status);
    world.leave();
    status.tell_end();
  } catch (const std::exception& failure) {
    end(world, status, failure);
  }
}

}  // namespace burnish::app
