#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "records/status.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// What a job was planned to take, for who waits for its turn; 0 where that is not known.
struct Expected {
  int64_t steps = 0;
  double seconds = 0;
};

/// A run of a verb, training say, that waits, runs, or has ended.
struct Job {
  enum class State { waiting, running, ended };
  std::string id;        ///< "0007-cat": the name of its files in queue/
  std::string run;       ///< the name of what it makes, a run's folder in runs/ say
  bool resumes = false;  ///< whether it goes on with what is there of that name
  State state = State::waiting;
  records::Process process = {};          ///< while it runs
  std::optional<int64_t> exit_code = {};  ///< once it has ended, where that is known
  Expected expected = {};
  std::optional<int64_t> gpu = {};  ///< the one that it was given, by its index (Gpu); none: whichever is free
};

/// Refuses settings of a job with which it would end at once, or write outside of the workspace: `job` is its name and what it is told.
using CheckSettings = std::function<void(const std::string& job, const std::string& settings)>;

/// Holds what the jobs of a queue are, and where they lie.
struct Work {
  std::filesystem::path folder;      ///< the queue's own
  std::filesystem::path results;     ///< has what each job makes, by its name
  std::filesystem::path working_in;  ///< the folder that jobs run in
  /// The program and what it is told: for settings, and the path of what they make.
  std::function<std::vector<std::string>(const Job& job, const std::string& settings, const std::string& result)> command;
  std::vector<std::string> variables = {};  ///< NAME=value that jobs have beside those of this process
  CheckSettings check = {};                 ///< what every job is asked before it is added; none: nothing
};

/// Trainings: `PROGRAM train SETTINGS` for each, which is told whether it may trust them, and an address to tell of the run ("": none).
Work training(const Workspace& workspace, const std::string& program, bool trusts_settings = false, CheckSettings check = {},
              const std::string& webhook = "");

/// Jobs one after the other, or several at once. The queue is a folder: of each job its settings (ID.toml), where it stands (ID.json) and
/// what it printed (ID.log); queue.json has their order. Jobs are processes of their own, so whatever ends one of them, or ends the studio,
/// leaves the others: a queue that is opened again finds the jobs that run by a variable of theirs.
class Queue {
 public:
  /// Begins to run what waits.
  explicit Queue(Work work);
  /// Jobs go on.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Jobs in their order.
  std::vector<Job> jobs() const;
  /// Adds a job at the end. `wish` is what its result is called, where none has that name; of one that resumes it is one that is there.
  /// Throws what the queue's check has against the settings, but for those that what is there was begun with (`are_its_own`).
  /// `gpu`: the one that it is to have alone.
  Job add(const std::string& wish, const std::string& settings, bool resumes, bool are_its_own = false, const Expected& expected = {},
          std::optional<int64_t> gpu = {});
  /// Moves a job that waits before another one, or to the end. False where there is no such job.
  bool move(const std::string& id, const std::string& before);
  /// Takes a job that waits, or has ended, out of the queue. False where there is no such job.
  bool remove(const std::string& id);
  /// The job that makes, or made last, what has this name.
  std::optional<Job> of_run(const std::string& run) const;
  std::filesystem::path log_of(const std::string& id) const { return work_.folder / (id + ".log"); }
  /// The last line that it printed.
  std::string says(const std::string& id) const;
  std::filesystem::path settings_of(const std::string& id) const { return work_.folder / (id + ".toml"); }

  /// How many run at once (each sees one GPU where it is more than one), and whether any are started. A job that was given a GPU begins as
  /// soon as no other has that one, however many run.
  int64_t at_once() const;
  bool is_paused() const;
  void set(int64_t at_once, bool is_paused);
  /// Sends jobs that run what Ctrl-C sends, so that each ends after its step, and saves. Nothing is started after that.
  void end_jobs();

 private:
  void change(const std::function<void()>& change);
  void read();
  void write(const Job& job) const;
  void run_jobs();
  /// Ends the record of jobs that have ended, and starts those that may start.
  void look_after_jobs();
  bool has_ended(Job& job) const;
  void start(Job& job, const std::string& gpu);
  std::vector<Job>::iterator find(const std::string& id);

  Work work_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  /// A job that runs.
  struct Running {
    std::string gpu;        ///< the one that it has
    bool is_child = false;  ///< of this process, not of a studio before it
  };
  std::map<std::string, Running> running_;
  int64_t at_once_ = 1;
  bool paused_ = false, stops_ = false;
  std::thread worker_;
};

/// Sends the process of a job that runs what Ctrl-C sends. False for one that is not known to run.
bool interrupt(const Job& job);

/// Returns the GPU that the body of a request gives a run; none where it says nothing of one.
std::optional<int64_t> gpu_of(const nlohmann::json& body);

/// {"id", "run", "resumes", "state": "waiting", "running" or "ended", "exit_code": number or null, "steps", "seconds": as expected, "gpu":
/// number or null}.
nlohmann::json to_json(const Job& job);

}  // namespace burnish::studio
