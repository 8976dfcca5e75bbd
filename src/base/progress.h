#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace burnish {

/// A one-line progress bar on stderr; silent when stderr is not a terminal, and for the first moments of what turns out to be quick.
class Progress {
 public:
  Progress(std::string what, int64_t total, int64_t done = 0);
  ~Progress();
  /// `note` stands at the end of the line ("loss 0.123").
  void update(int64_t done, const std::string& note = {});
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  int64_t total_, first_;
  bool visible_, drawn_ = false;
  Clock::time_point start_, last_;
};

}  // namespace burnish
