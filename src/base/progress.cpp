#include "base/progress.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "base/say.h"
#include "base/text.h"

namespace burnish {

namespace {

/// The stream as it is when the program starts: while a library is kept quiet, C's name for it leads elsewhere (data/jxl.cpp).
std::FILE* const kTerminal = stderr;

/// Between two lines where there is no terminal.
double seconds_between_lines() {
  const char* text = std::getenv("BURNISH_PROGRESS_SECONDS");
  auto seconds = text == nullptr ? 30 : std::atof(text);
  return seconds > 0 ? seconds : 1e9;
}

std::function<void(const Standing&)> g_listener;

}  // namespace

void listen_to_progress(std::function<void(const Standing&)> listener) { g_listener = std::move(listener); }

Progress::Progress(std::string what, int64_t total, int64_t done)
    : what_(std::move(what)),
      total_(total),
      first_(done),
      on_terminal_(isatty(STDERR_FILENO) && spdlog::should_log(spdlog::level::info)),
      seconds_apart_(on_terminal_ ? 0.2 : seconds_between_lines()),
      start_(Clock::now()),
      last_(start_) {
  announce(done);
}

Progress::~Progress() {
  if (drawn_) tell(kTerminal, "\n");
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

std::optional<double> Progress::seconds_left(int64_t done) const {
  if (done <= first_) return std::nullopt;
  return seconds() * static_cast<double>(total_ - done) / static_cast<double>(done - first_);
}

std::string Progress::left(int64_t done) const {
  auto seconds = seconds_left(done);
  return seconds ? human_seconds(*seconds) : "?";
}

void Progress::announce(int64_t done) const {
  if (g_listener) g_listener({what_, done, total_, seconds_left(done)});
}

void Progress::update(int64_t done, const std::string& note) {
  announce(done);
  auto now = Clock::now();
  bool due = std::chrono::duration<double>(now - last_).count() > seconds_apart_;
  if (!on_terminal_) {
    if (!due || done == total_) return;
    last_ = now;
    info("{} {}/{}, {} left{}{}", what_, done, total_, left(done), note.empty() ? "" : "  ", note);
    return;
  }
  if (!(due || done == total_) || (done == total_ && !drawn_ && seconds() < 1)) return;
  last_ = now;
  drawn_ = true;
  constexpr int64_t kWidth = 24;
  auto filled = total_ > 0 ? std::clamp<int64_t>(done * kWidth / total_, 0, kWidth) : 0;
  tell(kTerminal, "\r\033[K{} [{}{}] {}/{} {} left  {}", what_, std::string(static_cast<size_t>(filled), '#'),
       std::string(static_cast<size_t>(kWidth - filled), '.'), done, total_, left(done), note);
}

}  // namespace burnish
