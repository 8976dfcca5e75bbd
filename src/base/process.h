#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace burnish {

/// A program to start, and what it finds there.
struct Command {
  std::vector<std::string> words;                          ///< the program, looked for as the shell does, and its arguments
  std::optional<std::vector<std::string>> variables = {};  ///< NAME=value; none: those of this process
  std::filesystem::path folder = {};                       ///< that it runs in; "": this one
  std::filesystem::path input = {};                        ///< file that run_process has it read; "": nothing
  std::filesystem::path output = {};  ///< file that what it prints is added to, errors as well; "": where this process prints
  bool outlives = false;              ///< whether it is of a session of its own, which neither a terminal nor the end of this process ends
};

/// The variables of this process.
std::vector<std::string> own_variables();

/// Starts it, in a process group of its own, so that Ctrl-C reaches it through this process alone. Its number; a config Error where it
/// cannot be started.
pid_t start_process(const Command& command);

/// Says how a process ended.
struct Ended {
  int exit_code = 0;  ///< 128 + the signal's number where one ended it
  int signal = 0;
};

/// Waits until a child has ended.
Ended wait_for_process(pid_t child);

/// Returns how a child ended; nothing while it runs.
std::optional<Ended> ended_process(pid_t child);

/// Holds what a command said.
struct Said {
  int exit_code = 0;
  std::string output, errors;
  bool is_whole = true;  ///< false where it was ended for taking too long, or for saying more than was asked for
};

/// Returns the end of what a command said, in one line.
std::string end_of(std::string_view said);
/// Tells how a command of the user's ended: "NAME ended with exit code 3, and said at last: ..." with the end of what it said.
std::string ending(std::string_view name, int exit_code, std::string_view said);

/// Runs a command to its end and returns what it printed. One that takes longer, or prints more, is killed.
Said run_process(const Command& command, std::chrono::milliseconds most_time, size_t most_bytes);

/// A process that was started ahead, and goes on when it is told to: by then it has loaded what it needs. It is told in one line on its
/// standard input, and ends where that ends without one.
class Standby {
 public:
  explicit Standby(const Command& command);
  /// Ends it where it still waits.
  ~Standby();
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;

  /// Tells it, and returns what it printed, as run_process does; nothing where it had ended. To be called once.
  std::optional<Said> go_on(const std::string& line, std::chrono::milliseconds most_time, size_t most_bytes);

 private:
  class Heard;
  std::unique_ptr<Heard> heard_;
};

}  // namespace burnish
