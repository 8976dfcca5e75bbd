#include "base/forks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <exception>

namespace burnish {

namespace {

struct Fork {
  pid_t process = -1;
  int from = -1;  ///< where its text is read
};

void write_all(int to, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const auto written = ::write(to, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    done += static_cast<size_t>(std::max<ssize_t>(0, written));
  }
}

/// Where no process can be forked, the text is "".
Fork start(int64_t number, const std::function<std::string(int64_t)>& text) {
  std::array<int, 2> pipe{-1, -1};
  if (::pipe(pipe.data()) != 0) return {};
  const auto process = ::fork();
  if (process == 0) {
    ::close(pipe[0]);
    try {
      write_all(pipe[1], text(number));
    } catch (const std::exception&) {  // it has no text then
    }
    ::_exit(0);
  }
  ::close(pipe[1]);
  return {process, pipe[0]};
}

std::string text_of(const Fork& fork) {
  std::string text;
  std::array<char, 4096> part{};
  while (fork.from >= 0) {
    const auto count = ::read(fork.from, part.data(), part.size());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    text.append(part.data(), static_cast<size_t>(std::max<ssize_t>(0, count)));
  }
  if (fork.from >= 0) ::close(fork.from);
  while (fork.process > 0 && ::waitpid(fork.process, nullptr, 0) < 0 && errno == EINTR) continue;
  return text;
}

}  // namespace

void in_forks(int64_t count, int64_t at_once, const std::function<std::string(int64_t)>& text,
              const std::function<void(int64_t, const std::string&)>& told) {
  std::deque<Fork> running;
  for (int64_t next = 0, first = 0; first < count; ++first) {
    while (next < count && next < first + std::max<int64_t>(1, at_once)) running.push_back(start(next++, text));
    told(first, text_of(running.front()));
    running.pop_front();
  }
}

}  // namespace burnish
