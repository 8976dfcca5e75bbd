#include "base/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace burnish {

Progress::Progress(std::string what, int64_t total, int64_t done)
    : what_(std::move(what)), total_(total), first_(done), visible_(isatty(STDERR_FILENO)), start_(Clock::now()), last_(start_) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\n");
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::update(int64_t done, const std::string& note) {
  auto now = Clock::now();
  bool due = now - last_ > std::chrono::milliseconds(200) || done == total_;
  if (!visible_ || !due || (done == total_ && !drawn_ && seconds() < 1)) return;
  last_ = now;
  drawn_ = true;
  constexpr int64_t kWidth = 24;
  auto filled = total_ > 0 ? std::clamp<int64_t>(done * kWidth / total_, 0, kWidth) : 0;
  auto rate = seconds() > 0 ? static_cast<double>(done - first_) / seconds() : 0;
  auto left = rate > 0 ? human_seconds(static_cast<double>(total_ - done) / rate) : "?";
  fmt::print(stderr, "\r\033[K{} [{}{}] {}/{} {} left  {}", what_, std::string(static_cast<size_t>(filled), '#'),
             std::string(static_cast<size_t>(kWidth - filled), '.'), done, total_, left, note);
}

}  // namespace burnish
