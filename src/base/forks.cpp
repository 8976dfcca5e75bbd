#include "base/forks.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <map>
#include <utility>
#include <vector>

namespace burnish {

namespace {

struct Fork {
  int64_t number = 0;
  pid_t process = -1;
  int from = -1;          ///< where its text is read
  std::string text = {};  ///< what has been read
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
  if (::pipe(pipe.data()) != 0) return {.number = number};
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
  return {.number = number, .process = process, .from = pipe[0]};
}

/// Reads what is there of a fork's text; false where that has ended.
bool read_more(Fork& fork) {
  std::array<char, 4096> part{};
  const auto count = fork.from < 0 ? 0 : ::read(fork.from, part.data(), part.size());
  if (count > 0) fork.text.append(part.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

/// Lets go of a fork whose text has ended.
void let_go(Fork& fork) {
  if (fork.from >= 0) ::close(fork.from);
  while (fork.process > 0 && ::waitpid(fork.process, nullptr, 0) < 0 && errno == EINTR) continue;
}

/// Waits until a fork has said something or ended, and moves the texts of those that ended to `ended`, by their numbers.
void wait_for_some(std::vector<Fork>& running, std::map<int64_t, std::string>& ended) {
  std::vector<pollfd> polled;
  for (const auto& fork : running) polled.push_back({.fd = fork.from, .events = POLLIN, .revents = 0});
  const bool has_none = std::ranges::any_of(running, [](const auto& fork) { return fork.from < 0; });
  ::poll(polled.data(), polled.size(), has_none ? 0 : -1);
  for (auto i = running.size(); i-- > 0;) {
    auto& fork = running[i];
    const bool may_read = fork.from < 0 || polled[i].revents != 0;
    if (!may_read || read_more(fork)) continue;
    let_go(fork);
    ended[fork.number] = std::move(fork.text);
    running.erase(running.begin() + static_cast<int64_t>(i));
  }
}

}  // namespace

void in_forks(int64_t count, int64_t at_once, const std::function<std::string(int64_t)>& text,
              const std::function<void(int64_t, const std::string&)>& told) {
  std::vector<Fork> running;
  std::map<int64_t, std::string> ended;  // those that are not told yet
  for (int64_t next = 0, first = 0; first < count;) {
    while (next < count && std::ssize(running) < std::max<int64_t>(1, at_once)) running.push_back(start(next++, text));
    wait_for_some(running, ended);
    for (; ended.contains(first); ++first) told(first, ended.extract(first).mapped());
  }
}

}  // namespace burnish
