#include "studio/queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/process.h"
#include "base/text.h"
#include "io/files.h"
#include "io/last_lines.h"
#include "studio/gpus.h"
#include "studio/program.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr auto kPause = std::chrono::milliseconds(200);  // between two looks at the jobs
constexpr int64_t kMostJobsAtOnce = 64;
constexpr const char* kVariable = "BURNISH_JOB=";  // which a job has in its environment, with the path of its settings

constexpr std::array<std::pair<Job::State, const char*>, 3> kWords{
    {{Job::State::waiting, "waiting"}, {Job::State::running, "running"}, {Job::State::ended, "ended"}}};

const char* word_of(Job::State state) {
  return std::ranges::find(kWords, state, [](const auto& pair) { return pair.first; })->second;
}

/// An object that the queue wrote, or that somebody changed: a member that is not there, or is of another kind than the queue writes, is
/// taken as if it were not said, and the second is told with the file's name.
class ReadObject {
 public:
  /// An object that cannot be read is an empty one: whoever wrote it will write it again.
  explicit ReadObject(const fs::path& path) : name_(path.string()), value_(json_or(path, json::object())) {}
  ReadObject(std::string name, json value) : name_(std::move(name)), value_(std::move(value)) {}

  std::string text(const char* key) const {
    return of<std::string>(key, "", [](const json& one) { return one.is_string(); });
  }
  bool truth(const char* key, bool otherwise = false) const {
    return of<bool>(key, otherwise, [](const json& one) { return one.is_boolean(); });
  }
  int64_t whole(const char* key, int64_t otherwise) const {
    return of<int64_t>(key, otherwise, [](const json& one) { return one.is_number_integer(); });
  }
  std::vector<std::string> texts(const char* key) const {
    return of<std::vector<std::string>>(key, {}, [](const json& one) {
      return one.is_array() && std::ranges::all_of(one, [](const json& item) { return item.is_string(); });
    });
  }
  ReadObject object(const char* key) const {
    return {name_, of<json>(key, json::object(), [](const json& one) { return one.is_object(); })};
  }
  bool has(const char* key) const { return value_.contains(key); }

 private:
  template <class T>
  T of(const char* key, T otherwise, bool (*is_such)(const json& one)) const {
    const auto found = value_.find(key);
    if (found == value_.end()) return otherwise;
    if (is_such(*found)) return found->get<T>();
    warn("'{}' in {} is of another kind than the queue writes, and is left out", key, name_);
    return otherwise;
  }
  std::string name_;
  json value_;
};

json record_of(const Job& job) {
  json value{{"run", job.run}, {"resumes", job.resumes}, {"state", word_of(job.state)}};
  if (job.state == Job::State::running)
    value["process"] = {{"id", job.process.id}, {"start", job.process.start}, {"host", job.process.host}};
  if (job.exit_code) value["exit_code"] = *job.exit_code;
  if (job.expected.steps > 0) value["steps"] = job.expected.steps;
  if (job.expected.seconds > 0) value["seconds"] = std::llround(job.expected.seconds);
  if (job.gpu) value["gpu"] = *job.gpu;
  return value;
}

/// Returns a job as it was written. One of no known state has ended: nothing is begun that was not asked for.
Job job_of(const std::string& id, const ReadObject& value) {
  Job job{.id = id, .run = value.text("run"), .resumes = value.truth("resumes"), .state = Job::State::ended};
  const auto state = value.text("state");
  for (const auto& [known, word] : kWords) {
    if (state == word) job.state = known;
  }
  if (value.has("process")) {
    const auto process = value.object("process");
    job.process = {process.whole("id", 0), process.whole("start", 0), process.text("host")};
  }
  job.expected = {.steps = value.whole("steps", 0), .seconds = static_cast<double>(value.whole("seconds", 0))};
  if (value.has("gpu")) job.gpu = value.whole("gpu", 0);
  if (value.has("exit_code")) job.exit_code = value.whole("exit_code", static_cast<int64_t>(Exit::internal));
  return job;
}

/// The process of a job on this machine, found by its variable: the studio that started it may have been killed before it wrote it down.
std::optional<records::Process> process_of(const std::string& variable) {
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; entry != end; entry.increment(error)) {
    const auto process = parse_number<int64_t>(entry->path().filename().string());
    if (!process) continue;
    std::ifstream file(entry->path() / "environ", std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    const auto at = ('\0' + all).find('\0' + variable + '\0');
    if (at != std::string::npos) return records::process_with(*process);
  }
  return std::nullopt;
}

/// "0007" behind all numbers that are there.
std::string next_number(const std::vector<Job>& jobs) {
  int64_t last = 0;
  for (const auto& job : jobs) last = std::max(last, parse_number<int64_t>(job.id).value_or(0));
  return fmt::format("{:04}", last + 1);
}

void remove_files(const fs::path& queue, const std::string& id) {
  std::error_code ignored;
  for (const char* ending : {".toml", ".json", ".log"}) fs::remove(queue / (id + ending), ignored);
}

}  // namespace

std::optional<int64_t> gpu_of(const json& body) {
  return body.contains("gpu") ? std::optional(body.at("gpu").get<int64_t>()) : std::nullopt;
}

json to_json(const Job& job) {
  return {{"id", job.id},
          {"run", job.run},
          {"resumes", job.resumes},
          {"state", word_of(job.state)},
          {"exit_code", job.exit_code ? json(*job.exit_code) : json()},
          {"steps", job.expected.steps},
          {"seconds", job.expected.seconds},
          {"gpu", job.gpu ? json(*job.gpu) : json()}};
}

Work training(const Workspace& workspace, const std::string& program, bool trusts_settings, CheckSettings check,
              const std::string& webhook) {
  return {.folder = workspace.queue(),
          .results = workspace.runs(),
          .working_in = workspace.root(),
          .command =
              [program, trusts_settings, webhook](const Job& job, const std::string& settings, const std::string& result) {
                std::vector<std::string> words{program, "train", settings, "--output_path", result};
                if (job.resumes) words.emplace_back("--resume");
                if (trusts_settings) words.emplace_back("--trust_settings");
                if (!webhook.empty()) words.insert(words.end(), {"--webhook", webhook});
                return words;
              },
          .variables = {},
          .check = std::move(check)};
}

bool interrupt(const Job& job) {
  if (job.state != Job::State::running || records::is_running(job.process) != true) return false;
  return kill(static_cast<pid_t>(job.process.id), SIGINT) == 0;
}

Queue::Queue(Work work) : work_(std::move(work)) {
  std::error_code ignored;
  fs::create_directories(work_.folder, ignored);
  read();
  worker_ = std::thread([this] { run_jobs(); });
}

Queue::~Queue() {
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void Queue::read() {
  const ReadObject order(work_.folder / "queue.json");
  at_once_ = std::clamp<int64_t>(order.whole("at_once", 1), 1, kMostJobsAtOnce);
  paused_ = order.truth("is_paused", /*otherwise=*/io::is_there(work_.folder / "queue.json"));  // nothing is begun by what cannot be read
  std::vector<std::string> ids;
  std::error_code error;
  for (fs::directory_iterator entry(work_.folder, error), end; entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".toml") ids.push_back(entry->path().stem().string());
  }
  std::ranges::sort(ids);
  auto place_of = [&, listed = order.texts("order")](const std::string& id) { return std::ranges::find(listed, id) - listed.begin(); };
  std::ranges::stable_sort(ids, {}, place_of);
  for (const auto& id : ids) {
    auto job = job_of(id, ReadObject(work_.folder / (id + ".json")));
    if (job.run.empty()) continue;  // its settings alone: the studio ended before the job was whole
    if (job.state != Job::State::ended) {
      if (auto process = process_of(kVariable + settings_of(id).string())) {
        job.state = Job::State::running;
        job.process = *process;
      } else if (job.state == Job::State::waiting && io::is_there(log_of(id))) {
        job.state = Job::State::running;  // it was started, and ended while nobody looked
      }
    }
    if (job.state == Job::State::running) running_[id] = {.gpu = std::to_string(job.gpu.value_or(std::ssize(running_)))};
    jobs_.push_back(std::move(job));
  }
}

void Queue::write(const Job& job) const { io::write_text_atomic(work_.folder / (job.id + ".json"), record_of(job).dump(2) + "\n"); }

std::vector<Job> Queue::jobs() const {
  std::lock_guard lock(mutex_);
  return jobs_;
}

std::vector<Job>::iterator Queue::find(const std::string& id) { return std::ranges::find(jobs_, id, &Job::id); }

Job Queue::add(const std::string& wish, const std::string& settings, bool resumes, bool are_its_own, const Expected& expected,
               std::optional<int64_t> gpu) {
  if (gpu && (*gpu < 0 || *gpu >= kMostJobsAtOnce)) config_error("studio", "gpu must be from 0 to {}, not {}", kMostJobsAtOnce - 1, *gpu);
  if (!is_name(wish)) config_error("studio", "nothing can be called '{}': names have no slashes, and begin with no dot", wish);
  if (work_.check && !are_its_own) work_.check(wish, settings);
  std::lock_guard lock(mutex_);
  auto is_used = [&](const std::string& name) {
    return is_taken(work_.results / name) || std::ranges::find(jobs_, name, &Job::run) != jobs_.end();
  };
  auto name = wish;
  for (int number = 2; !resumes && is_used(name); ++number) name = fmt::format("{}-{}", wish, number);
  Job job{.id = next_number(jobs_) + "-" + name, .run = name, .resumes = resumes, .expected = expected, .gpu = gpu};
  try {
    io::write_text_atomic(settings_of(job.id), settings);
    write(job);
    change([&] { jobs_.push_back(job); });
  } catch (const Error&) {
    remove_files(work_.folder, job.id);
    throw;
  }
  changed_.notify_all();
  return job;
}

/// Changes the order of jobs, or how they are run, and writes that; what cannot be written stays as it was.
void Queue::change(const std::function<void()>& change) {
  const auto jobs = jobs_;
  const auto at_once = at_once_;
  const auto paused = paused_;
  change();
  try {
    std::vector<std::string> ids;
    for (const auto& job : jobs_) ids.push_back(job.id);
    const json value{{"order", ids}, {"at_once", at_once_}, {"is_paused", paused_}};
    io::write_text_atomic(work_.folder / "queue.json", value.dump(2) + "\n");
  } catch (const Error&) {
    jobs_ = jobs;
    at_once_ = at_once;
    paused_ = paused;
    throw;
  }
}

std::string Queue::says(const std::string& id) const {
  constexpr size_t kMostOfALog = 4 << 10;
  constexpr int64_t kSignals = 128;  // added to the number of the signal that ended a process
  const auto lines = split_list(io::last_lines(log_of(id), kMostOfALog), '\n');
  const auto last = lines.empty() ? "" : spoken(lines.back());
  std::lock_guard lock(mutex_);
  const auto job = std::ranges::find(jobs_, id, &Job::id);
  const auto signal = job == jobs_.end() ? 0 : job->exit_code.value_or(0) - kSignals;
  if (signal <= 0 || signal == SIGINT) return last;  // which is how it is asked to end
  const auto why =
      signal == SIGKILL ? "it was killed, as the system does where memory runs out" : fmt::format("it was ended by signal {}", signal);
  return last.empty() ? why : fmt::format("{}; the last that it said: {}", why, last);
}

bool Queue::move(const std::string& id, const std::string& before) {
  std::lock_guard lock(mutex_);
  auto found = find(id);
  if (found == jobs_.end() || found->state != Job::State::waiting || (!before.empty() && find(before) == jobs_.end())) return false;
  if (id == before) return true;
  change([&] {
    auto job = *found;
    jobs_.erase(found);
    jobs_.insert(before.empty() ? jobs_.end() : find(before), std::move(job));
  });
  return true;
}

bool Queue::remove(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto found = find(id);
  if (found == jobs_.end() || found->state == Job::State::running) return false;
  change([&] { jobs_.erase(found); });
  remove_files(work_.folder, id);
  return true;
}

std::optional<Job> Queue::of_run(const std::string& run) const {
  std::lock_guard lock(mutex_);
  std::optional<Job> last;
  for (const auto& job : jobs_) {
    if (job.run == run && (!last || job.id > last->id)) last = job;
  }
  return last;
}

int64_t Queue::at_once() const {
  std::lock_guard lock(mutex_);
  return at_once_;
}

bool Queue::is_paused() const {
  std::lock_guard lock(mutex_);
  return paused_;
}

void Queue::set(int64_t at_once, bool is_paused) {
  if (at_once < 1 || at_once > kMostJobsAtOnce) config_error("studio", "at_once must be from 1 to {}, not {}", kMostJobsAtOnce, at_once);
  std::lock_guard lock(mutex_);
  change([&] {
    at_once_ = at_once;
    paused_ = is_paused;
  });
  changed_.notify_all();
}

void Queue::end_jobs() {
  std::lock_guard lock(mutex_);
  stops_ = true;
  changed_.notify_all();
  for (const auto& job : jobs_) {
    interrupt(job);
  }
}

void Queue::run_jobs() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    try {
      look_after_jobs();
    } catch (const Error& error) {
      warn("the queue: {}", error.what());
      changed_.wait_for(lock, std::chrono::seconds(5));  // a full disk, say, stays full for a while
    }
    changed_.wait_for(lock, kPause);
  }
}

void Queue::look_after_jobs() {
  for (auto& job : jobs_) {
    if (job.state != Job::State::running || !has_ended(job)) continue;
    job.state = Job::State::ended;
    running_.erase(job.id);
    write(job);
  }
  if (paused_) return;
  for (auto& job : jobs_) {
    if (job.state != Job::State::waiting || (!job.gpu && std::ssize(running_) >= at_once_)) continue;
    std::vector<std::string> taken;
    for (const auto& [id, other] : running_) taken.push_back(other.gpu);
    if (const auto gpu = free_gpu(job.gpu, taken)) start(job, *gpu);
  }
}

/// Notes how it ended, as far as can be known: of a child from the system, of the child of an earlier studio from what its run wrote.
bool Queue::has_ended(Job& job) const {
  if (auto running = running_.find(job.id); running != running_.end() && running->second.is_child) {
    auto ended = ended_process(static_cast<pid_t>(job.process.id));
    if (ended) job.exit_code = ended->exit_code;
    return ended.has_value();
  }
  if (records::is_running(job.process).value_or(false)) return false;
  try {
    if (auto status = records::read_status(work_.results / job.run); status && status->has_ended()) job.exit_code = status->exit_code;
  } catch (const Error& error) {
    warn("{}", error.what());
  }
  return true;
}

void Queue::start(Job& job, const std::string& gpu) {
  auto own = work_.variables;
  own.push_back(kVariable + settings_of(job.id).string());
  if (at_once_ > 1 || job.gpu) std::ranges::copy(variables_of_gpu(gpu), std::back_inserter(own));
  try {
    const auto child = start_process({.words = work_.command(job, settings_of(job.id).string(), (work_.results / job.run).string()),
                                      .variables = variables_with(own),
                                      .folder = work_.working_in,
                                      .output = log_of(job.id),
                                      .outlives = true});
    job.process = records::process_with(child).value_or(records::Process{.id = child});
    job.state = Job::State::running;
    running_[job.id] = {.gpu = gpu, .is_child = true};
  } catch (const Error& error) {
    io::write_text_atomic(log_of(job.id), std::string(error.what()) + "\n");
    job.state = Job::State::ended;
    job.exit_code = static_cast<int64_t>(error.code());
  }
  write(job);
}

}  // namespace burnish::studio
