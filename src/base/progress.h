#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace burnish {

/// How far a piece of work is, in numbers.
struct Standing {
  std::string what;
  int64_t done = 0, total = 0;
  std::optional<double> seconds_left = std::nullopt;  ///< none while nothing is done
};

/// Has `listener` hear of every Progress of this process at its start and at each update, in the thread that makes it, whatever stderr
/// shows; an empty one: nobody hears any more.
void listen_to_progress(std::function<void(const Standing&)> listener);

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
  std::optional<double> seconds_left(int64_t done) const;
  std::string left(int64_t done) const;
  void announce(int64_t done) const;

  std::string what_;
  int64_t total_, first_;
  bool on_terminal_, drawn_ = false;
  double seconds_apart_;
  Clock::time_point start_, last_;
};

}  // namespace burnish
