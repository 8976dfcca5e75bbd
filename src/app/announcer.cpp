#include "app/announcer.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "hub/transport.h"
#include "io/last_lines.h"

namespace burnish::app {

namespace fs = std::filesystem;
using nlohmann::json;
using records::Event;

namespace {

constexpr double kMostSeconds = 10;                   // that one line may take to its address
constexpr auto kLastWait = std::chrono::seconds(15);  // for all lines that are left when the run has ended
constexpr size_t kMostWaiting = 64;                   // lines for an address that does not answer
constexpr size_t kMostOfOutput = 4000;                // bytes of a failed command that are read again
constexpr size_t kMostOfText = 1500;                  // bytes of a message; chats take 2000 characters

/// Work that is done in a thread of its own, one piece after the other, in the order in which it comes.
class Errands {
 public:
  ~Errands() {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// False where `most` pieces wait already, or no thread can be started.
  bool add(std::function<void()> piece, size_t most) {
    std::lock_guard lock(mutex_);
    if (pieces_.size() >= most) return false;
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      pieces_.clear();
    }
    return !pieces_.empty();
  }
  /// Waits until all is done, or for so long.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pieces_.empty(); });
  }
  bool wait_for(std::chrono::seconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return pieces_.empty(); });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ends_ || !pieces_.empty(); });
      if (pieces_.empty()) return;
      auto& piece = pieces_.front();  // which stays where it is while others come
      lock.unlock();
      piece();
      lock.lock();
      pieces_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pieces_;  ///< the first is being done
  std::thread thread_;
  bool ends_ = false;
};

const char* word_of(Event::Kind kind) {
  static constexpr std::array kWords{"started", "saved", "ended"};
  return kWords.at(static_cast<size_t>(kind));
}

/// The folder's own name, also of "runs/cat/" and of ".".
std::string name_of(const fs::path& run) {
  auto path = fs::absolute(run).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::vector<std::string> names_of(const std::vector<fs::path>& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.filename().string());
  return names;
}

/// Returns what a person reads of it.
std::string sentence_of(const Event& event) {
  const auto name = name_of(event.run);
  const auto& status = event.status;
  if (event.kind == Event::Kind::started) return fmt::format("{}: started", name);
  if (event.kind == Event::Kind::saved) return fmt::format("{}: step {} is saved ({})", name, event.step, join(names_of(event.files)));
  auto text = fmt::format("{}: {}", name, json(records::to_json(status)).at("state").get<std::string>());
  return status.sentence.empty() ? text : text + ": " + status.sentence;
}

/// The line that an address is sent. Slack reads "text" of it, Discord "content".
std::string line_of(const Event& event) {
  auto text = sentence_of(event).substr(0, kMostOfText);
  auto status = records::to_json(event.status);
  json line{{"event", word_of(event.kind)},
            {"run", name_of(event.run)},
            {"step", event.step},
            {"steps", status["steps"]},
            {"state", status["state"]},
            {"sentence", status["sentence"]},
            {"exit_code", status["exit_code"]},
            {"time", status["written"]},
            {"files", names_of(event.files)},
            {"text", text},
            {"content", text}};
  return line.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

/// What a command finds in its environment, beside what is there.
std::vector<std::string> variables_of(const Event& event) {
  auto variables = own_variables();
  std::erase_if(variables,
                [](const auto& variable) { return variable.starts_with("BURNISH_RUN_") || variable.starts_with("BURNISH_JOB="); });
  auto add = [&](const char* name, const std::string& value) { variables.push_back(fmt::format("BURNISH_RUN_{}={}", name, value)); };
  std::vector<std::string> files;
  for (const auto& file : event.files) files.push_back(fs::absolute(file).string());
  auto status = records::to_json(event.status);
  add("EVENT", word_of(event.kind));
  add("FOLDER", fs::absolute(event.run).lexically_normal().string());
  add("STEP", std::to_string(event.step));
  add("STEPS", status["steps"].dump());
  add("STATE", status["state"].get<std::string>());
  add("FILE", files.empty() ? "" : files.front());
  add("FILES", join(files, "\n"));
  add("EXIT_CODE", event.status.exit_code ? std::to_string(*event.status.exit_code) : "");
  add("SENTENCE", event.status.sentence);
  return variables;
}

/// Runs a command to its end. What it prints is added to commands.log of the run.
void run_command(const char* option, const std::string& command, const Event& event) {
  const auto log = event.run / "commands.log";
  std::error_code none;
  const auto before = fs::exists(log, none) ? fs::file_size(log, none) : 0;
  const auto child =
      start_process({.words = {"/bin/sh", "-c", command}, .variables = variables_of(event), .output = fs::absolute(log), .outlives = true});
  const auto ended = wait_for_process(child);
  if (ended.exit_code == 0) return;
  warn("{}", ending(option, ended.exit_code, io::last_lines(log, kMostOfOutput, before)));
}

class Announcer {
 public:
  explicit Announcer(const train::TellOptions& options) : options_(options) {}

  void hear(const Event& event) {
    const bool ends = event.kind == Event::Kind::ended;
    if (event.kind == Event::Kind::saved) command("on_save", options_.on_save, event);
    if (ends) command("on_end", options_.on_end, event);
    if (!options_.webhook.empty() && !lines_.add([this, line = line_of(event)] { send(line); }, kMostWaiting))
      warn("the webhook does not answer, and is not told of: {}", sentence_of(event));
    if (!ends) return;
    if (!lines_.wait_for(kLastWait)) gives_up_ = true;
    commands_.wait();
  }

 private:
  void command(const char* option, const std::string& text, const Event& event) {
    if (text.empty()) return;
    auto run = [option, text, event] {
      try {
        run_command(option, text, event);
      } catch (const std::exception& error) {
        warn("{} was not run: {}", option, without_source(error));
      }
    };
    if (!commands_.add(run, std::numeric_limits<size_t>::max())) warn("{} was not run: no thread can be started", option);
  }

  /// An address may be a secret, so that no message holds it.
  void send(const std::string& line) {
    if (gives_up_) return;
    std::string problem;
    try {
      hub::Transport transport({.stall_seconds = kMostSeconds}, [this] { return gives_up_.load(); });
      const auto answer = transport.post({.url = options_.webhook, .json = line});
      if (answer.problem.empty() && answer.status / 100 == 2) return;
      problem = answer.problem.empty() ? fmt::format("it answers {}", answer.status) : answer.problem;
    } catch (const std::exception& error) {
      problem = without_source(error);
    }
    warn("the webhook was not told: {}", problem);
  }

  train::TellOptions options_;
  std::atomic<bool> gives_up_ = false;
  Errands commands_, lines_;  // the last: they end before what they use
};

}  // namespace

std::function<void(const Event&)> announcer_of(const train::TellOptions& options) {
  if ((options.on_save + options.on_end + options.webhook).empty()) return {};
  return [announcer = std::make_shared<Announcer>(options)](const Event& event) {
    try {
      announcer->hear(event);
    } catch (const std::exception& error) {
      warn("what the run does is not told: {}", without_source(error));
    }
  };
}

}  // namespace burnish::app
