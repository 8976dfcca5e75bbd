#include "studio/machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// A file of /proc, whose size is not known beforehand; "" where it cannot be read.
std::string read_proc(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

json to_json(const Gpu& gpu) {
  return {
      {"index", gpu.index},     {"name", gpu.name},  {"busy", gpu.busy}, {"used_bytes", gpu.used_bytes}, {"total_bytes", gpu.total_bytes},
      {"degrees", gpu.degrees}, {"watts", gpu.watts}};
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::optional<Ticks> ticks_in(const std::string& text) {
  std::istringstream words(text);
  std::string name;
  words >> name;
  if (name != "cpu") return std::nullopt;
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already (proc(5)).
  Ticks ticks;
  int64_t value = 0;
  for (int column = 0; column < 8 && words >> value; ++column) {
    ticks.all += value;
    if (column != 3 && column != 4) ticks.busy += value;
  }
  return ticks.all > 0 ? std::optional(ticks) : std::nullopt;
}

int64_t bytes_in(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    int64_t kib = 0;
    std::istringstream(line.substr(name.size() + 1)) >> kib;
    return kib * 1024;
  }
  return 0;
}

Machine::Machine(const Workspace& workspace, const Queue& queue, Program& program, std::string root)
    : workspace_(workspace), queue_(queue), program_(program), root_(std::move(root)), worker_([this] { work(); }) {}

Machine::~Machine() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void Machine::work() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const auto now = Clock::now();
    auto& looks = known_.looks;
    while (!looks.empty() && now - looks.front().at > kHistory) looks.pop_front();
    const bool runs = std::ranges::any_of(queue_.jobs(), [](const Job& job) { return job.state == Job::State::running; });
    const bool is_time = looks.empty() || now - looks.back().at >= kBetween / 2;  // `state` may just have looked
    if (!runs && now - known_.asked >= kHistory) known_.ticks.reset();            // a share of so long a time is no share of now
    else if (is_time) look();
    changed_.wait_for(lock, kBetween, [this] { return ends_; });
  }
}

void Machine::look() {
  Look look{.at = Clock::now(), .time = now()};
  const auto ticks = ticks_in(read_proc(root_ + "/proc/stat"));
  if (ticks && known_.ticks && ticks->all > known_.ticks->all)
    look.busy = static_cast<double>(ticks->busy - known_.ticks->busy) / static_cast<double>(ticks->all - known_.ticks->all);
  known_.ticks = ticks;
  const auto memory = read_proc(root_ + "/proc/meminfo");
  look.total_bytes = bytes_in(memory, "MemTotal");
  look.used_bytes = look.total_bytes - bytes_in(memory, "MemAvailable");
  if (!known_.gpus) known_.gpus = std::make_unique<Gpus>();
  look.gpus = known_.gpus->look();
  known_.looks.push_back(std::move(look));
}

json Machine::jobs(const std::vector<Gpu>& gpus) const {
  auto list = json::array();
  for (const auto& job : queue_.jobs()) {
    if (job.state != Job::State::running) continue;
    const auto status = read_proc(fmt::format("{}/proc/{}/status", root_, job.process.id));
    json one{{"run", job.run}, {"process", job.process.id}, {"memory_bytes", bytes_in(status, "RssAnon") + bytes_in(status, "RssShmem")}};
    int64_t on_gpus = 0;
    for (const auto& gpu : gpus) {
      if (auto used = gpu.used_by.find(job.process.id); used != gpu.used_by.end()) on_gpus += used->second;
    }
    one["gpu_bytes"] = on_gpus;
    list.push_back(std::move(one));
  }
  return list;
}

json Machine::state() {
  std::lock_guard lock(mutex_);
  known_.asked = Clock::now();
  if (known_.looks.empty() || known_.asked - known_.looks.back().at > 2 * kBetween) look();
  json state{
      {"seconds", std::chrono::seconds(kHistory).count()}, {"threads", std::thread::hardware_concurrency()}, {"looks", json::array()}};
  for (const auto& look : known_.looks) {
    json one{
        {"time", look.time}, {"busy", look.busy ? json(*look.busy) : json()}, {"used_bytes", look.used_bytes}, {"gpus", json::array()}};
    for (const auto& gpu : look.gpus) one["gpus"].push_back({{"busy", gpu.busy}, {"used_bytes", gpu.used_bytes}});
    state["looks"].push_back(std::move(one));
  }
  const auto& last = known_.looks.back();
  state["total_bytes"] = last.total_bytes;
  state["gpus"] = json::array();
  for (const auto& gpu : last.gpus) state["gpus"].push_back(to_json(gpu));
  std::error_code error;
  const auto space = fs::space(workspace_.root(), error);
  state["disk"] = {{"folder", workspace_.root().string()},
                   {"free_bytes", error ? json() : json(space.available)},
                   {"total_bytes", error ? json() : json(space.capacity)}};
  state["jobs"] = jobs(last.gpus);
  return state;
}

json Machine::notes() {
  std::lock_guard lock(notes_.mutex);
  if (notes_.text.empty() || Clock::now() - notes_.at > kHistory) {
    notes_.text = program_.run({"doctor", "--quick", "--json"}).output;
    notes_.at = Clock::now();
  }
  auto value = json::parse(notes_.text, nullptr, /*allow_exceptions=*/false);
  if (value.is_object()) return value;
  notes_.text.clear();
  return {{"advice", json::array({"`burnish doctor` did not answer; run it in a terminal to see why"})}};
}

}  // namespace burnish::studio
