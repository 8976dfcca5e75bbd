#pragma once
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/integration/program.h"

namespace burnish::test {

/// A program on a terminal of its own, as a shell starts it.
class OnTerminal {
 public:
  explicit OnTerminal(const std::string& command) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) throw std::runtime_error("no terminal");
    const std::string name = ::ptsname(master_);
    child_ = ::fork();
    if (child_ == 0) {
      ::setsid();
      const int terminal = ::open(name.c_str(), O_RDWR);
      ::ioctl(terminal, TIOCSCTTY, 0);
      for (int stream : {0, 1, 2}) ::dup2(terminal, stream);
      ::close(master_);
      // Which a shell or nohup has these tests ignore, where they run in the background.
      for (int ignored : {SIGINT, SIGHUP}) ::signal(ignored, SIG_DFL);
      ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
      _exit(127);
    }
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  OnTerminal(const OnTerminal&) = delete;
  ~OnTerminal() { hang_up(); }

  /// Reads what it shows for so long, as a terminal does.
  void show(std::chrono::milliseconds time) {
    using namespace std::chrono_literals;
    for (auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(5ms))
      take();
  }
  /// Reads until it shows the text, behind what was waited for before; false where it does not within two minutes.
  bool shows(const std::string& text) {
    using namespace std::chrono_literals;
    for (auto end = std::chrono::steady_clock::now() + 120s; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(5ms)) {
      take();
      if (auto at = shown_.find(text, seen_); at != shown_.npos) return seen_ = at + text.size(), true;
    }
    return false;
  }
  /// All that it has shown.
  const std::string& shown() const { return shown_; }
  /// Types keys: "\n" ends a line, "\x03" is Ctrl-C, "\x04" Ctrl-D.
  void type(const std::string& keys) const {
    if (::write(master_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) throw std::runtime_error("cannot type");
  }
  void hang_up() {
    if (master_ >= 0) ::close(std::exchange(master_, -1));
  }
  /// How it ended, as waitpid has it. What it shows until then is read.
  int wait() {
    using namespace std::chrono_literals;
    int status = 0;
    while (::waitpid(child_, &status, WNOHANG) == 0) {
      take();
      std::this_thread::sleep_for(5ms);
    }
    take();
    return status;
  }

 private:
  void take() {
    std::array<char, 4096> text{};
    if (master_ < 0) return;
    for (auto count = ::read(master_, text.data(), text.size()); count > 0; count = ::read(master_, text.data(), text.size()))
      shown_.append(text.data(), static_cast<size_t>(count));
  }

  int master_;
  pid_t child_ = -1;
  std::string shown_;
  size_t seen_ = 0;  ///< what was waited for ends here
};

inline std::string ended(int status) {
  return WIFEXITED(status) ? "code " + std::to_string(WEXITSTATUS(status)) : "signal " + std::to_string(WTERMSIG(status));
}

}  // namespace burnish::test
