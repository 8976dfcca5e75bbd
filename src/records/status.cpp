#include "records/status.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/host_name.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/progress.h"
#include "io/files.h"
#include "io/json.h"
#include "io/told_file.h"

namespace burnish::records {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::array<std::pair<State, const char*>, 9> kWords{{{State::reading, "reading"},
                                                               {State::planning, "planning"},
                                                               {State::encoding, "encoding"},
                                                               {State::loading, "loading"},
                                                               {State::training, "training"},
                                                               {State::saving, "saving"},
                                                               {State::done, "done"},
                                                               {State::failed, "failed"},
                                                               {State::interrupted, "interrupted"}}};

std::string word_of(State state) {
  return std::ranges::find_if(kWords, [&](const auto& pair) { return pair.first == state; })->second;
}

constexpr auto kBetweenWrites = std::chrono::seconds(1);

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Returns when a process started; 0 for one that is not there, or has ended and only waits to be asked how.
int64_t start_of(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  std::stringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));  // a name in brackets may hold blanks
  std::string state;
  fields >> state;
  constexpr int kFromStateToStart = 19;
  int64_t start = 0;
  for (int i = 0; i < kFromStateToStart; ++i) fields >> start;
  return state == "Z" || state == "X" ? 0 : start;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

template <class T>
std::optional<T> optional_at(const json& object, const char* name) {
  const auto& value = object.at(name);
  return value.is_null() ? std::nullopt : std::optional<T>(value.get<T>());
}

Status from_json(const json& file) {
  auto word = file.at("state").get<std::string>();
  auto known = std::ranges::find_if(kWords, [&](const auto& pair) { return pair.second == word; });
  if (known == kWords.end()) throw std::invalid_argument("'" + word + "' is no state");
  const auto& process = file.at("process");
  return {.state = known->first,
          .stage = file.at("stage").get<std::string>(),
          .done = file.at("done").get<int64_t>(),
          .total = file.at("total").get<int64_t>(),
          .seconds_left = optional_at<double>(file, "seconds_left"),
          .steps = file.value("steps", int64_t{0}),
          .sentence = file.at("sentence").get<std::string>(),
          .exit_code = optional_at<int64_t>(file, "exit_code"),
          .process = {process.at("id").get<int64_t>(), process.at("start").get<int64_t>(), process.at("host").get<std::string>()},
          .times = {file.at("started").get<double>(), file.at("written").get<double>()}};
}

}  // namespace

Process own_process() { return {getpid(), start_of(getpid()), host_name()}; }

std::optional<Process> process_with(int64_t id) {
  const auto start = start_of(id);
  return start == 0 ? std::nullopt : std::optional(Process{id, start, host_name()});
}

std::optional<bool> is_running(const Process& process) {
  if (process.host != host_name()) return std::nullopt;
  return process.start != 0 && start_of(process.id) == process.start;
}

fs::path status_path(const fs::path& run) { return run / "status.json"; }

json to_json(const Status& s) {
  return {{"state", word_of(s.state)},
          {"stage", s.stage},
          {"done", s.done},
          {"total", s.total},
          {"seconds_left", or_null(s.seconds_left)},
          {"steps", s.steps},
          {"sentence", s.sentence},
          {"exit_code", or_null(s.exit_code)},
          {"process", {{"id", s.process.id}, {"start", s.process.start}, {"host", s.process.host}}},
          {"started", s.times.started},
          {"written", s.times.written}};
}

std::optional<Status> read_status(const fs::path& run) {
  auto path = status_path(run);
  if (!io::is_there(path)) return std::nullopt;
  auto file = io::read_json(path);
  try {
    return from_json(file);
  } catch (const std::exception& error) {
    data_error("records", "{} does not say where a run stands: {}; it is written anew when a run starts there", path.string(),
               without_source(error));
  }
}

struct StatusFile::Writer {
  explicit Writer(const fs::path& run) : path(status_path(run)) {
    status.process = own_process();
    status.times.started = now();
  }

  void write() {
    status.times.written = now();
    last = std::chrono::steady_clock::now();
    try {
      io::tell(path, to_json(status).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
    } catch (const std::exception& error) {
      if (!std::exchange(has_failed, true)) warn("where the run stands is not told: {}", without_source(error));
    }
  }

  void hear(const Standing& standing) {
    bool is_new = standing.what != status.stage;
    status.stage = standing.what;
    status.done = standing.done;
    status.total = standing.total;
    status.seconds_left = standing.seconds_left;
    if (is_new || std::chrono::steady_clock::now() - last >= kBetweenWrites) write();
  }

  fs::path path;
  Status status;
  int64_t saved_step = 0;
  std::chrono::steady_clock::time_point last;
  bool has_failed = false;
};

StatusFile::StatusFile() = default;

StatusFile::~StatusFile() {
  if (writer_) listen_to_progress({});
}

void StatusFile::begin(const fs::path& run) {
  writer_ = std::make_unique<Writer>(run);
  listen_to_progress([writer = writer_.get()](const Standing& standing) { writer->hear(standing); });
  writer_->write();
  tell(Event::Kind::started);
}

void StatusFile::enter(State state) const {
  if (!writer_) return;
  auto& status = writer_->status;
  status.state = state;
  status.stage.clear();
  status.done = status.total = 0;
  status.seconds_left.reset();
  writer_->write();
}

void StatusFile::count_steps(int64_t steps) const {
  if (writer_) writer_->status.steps = steps;
}

void StatusFile::listen(std::function<void(const Event&)> listener) { listener_ = std::move(listener); }

void StatusFile::tell(Event::Kind kind, std::vector<fs::path> files) const {
  if (writer_ && listener_) listener_({kind, writer_->path.parent_path(), writer_->saved_step, std::move(files), writer_->status});
}

void StatusFile::saved(int64_t step, std::vector<fs::path> files) const {
  if (!writer_) return;
  writer_->saved_step = step;
  tell(Event::Kind::saved, std::move(files));
}

void StatusFile::tell_end() const { tell(Event::Kind::ended); }

void StatusFile::end(Exit code, const std::string& sentence) const {
  if (!writer_) return;
  auto& status = writer_->status;
  if (code != Exit::done && status.stage.empty()) status.stage = word_of(status.state);
  status.state = code == Exit::done ? State::done : code == Exit::interrupted ? State::interrupted : State::failed;
  status.exit_code = static_cast<int64_t>(code);
  status.sentence = sentence;
  status.seconds_left.reset();
  writer_->write();
  listen_to_progress({});
}

}  // namespace burnish::records
