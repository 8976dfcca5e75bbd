#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace burnish {
enum class Exit;
}

namespace burnish::records {

/// The state of a run, in the order in which it comes to it; the last three say how it ended.
enum class State { reading, planning, encoding, loading, training, saving, done, failed, interrupted };

/// A process, named so that no later one of the same number is taken for it.
struct Process {
  int64_t id = 0;
  int64_t start = 0;  ///< clock ticks from the machine's start to its own (field 22 of proc(5)'s stat)
  std::string host = {};
};

/// This process.
Process own_process();
/// The process of this machine that has the number now; nothing where there is none.
std::optional<Process> process_with(int64_t id);
/// Tells whether the process goes on; nothing where that cannot be seen from here: on another machine, or in another container.
std::optional<bool> is_running(const Process& process);

/// Says where a run stands, in RUN/status.json.
struct Status {
  State state = State::reading;
  std::string stage = {};                             ///< the piece of work that it is at, as its progress bar calls it; "" for none
  int64_t done = 0, total = 0;                        ///< of the stage; a total of 0 where nothing is counted
  std::optional<double> seconds_left = std::nullopt;  ///< of the stage
  int64_t steps = 0;                                  ///< of the whole run; 0 until they are counted
  std::string sentence = {};                          ///< why it ended, if not well
  std::optional<int64_t> exit_code = std::nullopt;    ///< once it has ended
  Process process = {};
  struct Times {
    double started = 0, written = 0;
  } times = {};  ///< seconds since 1970: of the run, and of the file

  bool has_ended() const { return state >= State::done; }
};

/// Something that a run did, as it is told to who listens.
struct Event {
  enum class Kind { started, saved, ended };
  Kind kind = Kind::started;
  std::filesystem::path run;                      ///< its folder
  int64_t step = 0;                               ///< the step that was saved, or saved last; 0 for none
  std::vector<std::filesystem::path> files = {};  ///< files of weights that were saved
  Status status = {};                             ///< where the run stands
};

std::filesystem::path status_path(const std::filesystem::path& run);

/// The object in the file; states are their words ("encoding").
nlohmann::json to_json(const Status& status);

/// The status that a run has written; nothing where it has written none. A data Error for a file that holds something else.
std::optional<Status> read_status(const std::filesystem::path& run);

/// Writes the status of the run that this process does: at each change of its state or stage, and else at most once a second. All of it
/// happens in one thread. A status only tells, so one that cannot be written ends no run: the first time is a warning.
class StatusFile {
 public:
  /// The status of no run yet: nothing is written.
  StatusFile();
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;

  /// The folder is the run's from here on, which begins with State::reading; stages come from every Progress of this process.
  void begin(const std::filesystem::path& run);
  /// Sets what the run is at now, without a stage yet.
  void enter(State state) const;
  /// Notes how many steps the whole run has, which no setting need say. It is written with the next change.
  void count_steps(int64_t steps) const;
  /// `listener` hears of the run that begins from here on, in the thread in which it is said. It must not throw.
  void listen(std::function<void(const Event&)> listener);
  /// Weights of a step are there, in these files.
  void saved(int64_t step, std::vector<std::filesystem::path> files) const;
  /// The run has ended: done, interrupted or failed by its exit code, at the stage that it was at, or, without one, the state.
  void end(Exit code, const std::string& sentence = "") const;
  /// Tells the listener that it has ended, when all else is done that belongs to the run.
  void tell_end() const;

 private:
  void tell(Event::Kind kind, std::vector<std::filesystem::path> files = {}) const;

  struct Writer;
  std::unique_ptr<Writer> writer_;  ///< null before the run has begun
  std::function<void(const Event&)> listener_;
};

}  // namespace burnish::records
