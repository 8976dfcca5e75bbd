#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace burnish {

/// Shows on stderr how far a piece of work is: a bar on a terminal, silent for the first moments of what turns out to be quick; elsewhere a
/// line of the log every half a minute, or every BURNISH_PROGRESS_SECONDS (0: never).
class Progress {
 public:
  Progress(std::string what, int64_t total, int64_t done = 0);
  ~Progress();
  /// `note` stands at the end of the line ("loss 0.123").
  void update(int64_t done, const std::string& note = {});
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string left(int64_t done) const;

  std::string what_;
  int64_t total_, first_;
  bool on_terminal_, drawn_ = false;
  double seconds_apart_;
  Clock::time_point start_, last_;
};

}  // namespace burnish
