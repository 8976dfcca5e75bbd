#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/integration/refused.h"

// Processes of one run that a test can stop and kill.
namespace burnish::test {

/// Whether more wants to run on this machine than it has processors for, by the fourth field of proc_loadavg(5).
inline bool is_machine_loaded() {
  std::stringstream words(read_file("/proc/loadavg"));
  double load = 0;
  unsigned running = 0;
  words >> load >> load >> load >> running;
  return running > std::thread::hardware_concurrency();
}

/// Whether it came true in time, asked often. Seconds are those of a machine with nothing else to do; while it is loaded they pass ten
/// times as slowly, so that what is tested is what ends and not how fast the machine is.
inline bool within(double seconds, const std::function<bool()>& is_true) {
  constexpr double kSlower = 0.1;
  auto before = std::chrono::steady_clock::now();
  while (!is_true()) {
    if (seconds < 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    auto now = std::chrono::steady_clock::now();
    seconds -= std::chrono::duration<double>(now - std::exchange(before, now)).count() * (is_machine_loaded() ? kSlower : 1);
  }
  return true;
}

/// A port that nobody has.
inline int free_port() {
  int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  bool is_bound = ::bind(descriptor, any, size) == 0 && ::getsockname(descriptor, any, &size) == 0;
  ::close(descriptor);
  return is_bound ? ntohs(address.sin_port) : 0;
}

/// A command that runs beside the test, in a process group of its own, until it ends or this is gone.
class Running {
 public:
  Running(const std::string& command, fs::path output) : output_(std::move(output)) {
    auto line = "exec " + command + " >'" + output_.string() + "' 2>&1";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
  }
  Running(Running&& other) noexcept : pid_(other.pid_), exit_code_(other.exit_code_), output_(other.output_) { other.pid_ = -1; }
  ~Running() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    if (exit_code_ < 0) ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void send(int number) const { ::kill(pid_, number); }
  bool has_ended() {
    int status = 0;
    if (exit_code_ < 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return exit_code_ >= 0;
  }
  bool ends_within(double seconds) {
    return within(seconds, [&] { return has_ended(); });
  }
  int exit_code() const { return exit_code_; }
  std::string output() const { return read_file(output_); }

 private:
  pid_t pid_ = -1;
  int exit_code_ = -1;
  fs::path output_;
};

/// The sentences of errors in an output.
inline std::vector<std::string> sentences(const std::string& output) {
  std::vector<std::string> found;
  std::stringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, std::regex("^\\[[a-z]+\\] "))) found.push_back(line);
  }
  return found;
}

}  // namespace burnish::test
