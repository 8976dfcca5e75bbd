#pragma once
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>

namespace burnish::test {

/// A disk that can be made to wait or to fail. It stands where every file that is written whole ends: in fsync, which the program that
/// includes this gets from here.
class StoppableDisk {
 public:
  /// Files whose path holds `part` are not written until `go_on`.
  void stop(const std::string& part) { set(part, 0); }
  /// They end with this errno.
  void fail(const std::string& part, int error) { set(part, error); }
  /// Nothing is held up any longer. Whether anything had to wait for so long that its waiting was given up.
  bool go_on() {
    set("", 0);
    std::lock_guard lock(mutex_);
    return was_given_up_;
  }
  /// Waits until so many files have been held up or failed; false when none comes in time.
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return num_hindered_ >= count; });
  }

  int sync(int descriptor) {
    std::error_code ignored;
    auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored).string();
    std::unique_lock lock(mutex_);
    auto is_hindered = [&] { return !part_.empty() && path.find(part_) != path.npos; };
    if (is_hindered()) {
      ++num_hindered_;
      changed_.notify_all();
      if (error_ != 0) {
        errno = error_;
        return -1;
      }
      was_given_up_ = !changed_.wait_for(lock, kPatience, [&] { return !is_hindered(); });
    }
    return static_cast<int>(syscall(SYS_fsync, descriptor));
  }

 private:
  static constexpr std::chrono::seconds kPatience{10};
  void set(const std::string& part, int error) {
    std::lock_guard lock(mutex_);
    part_ = part;
    error_ = error;
    num_hindered_ = 0;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string part_;
  int error_ = 0, num_hindered_ = 0;
  bool was_given_up_ = false;
};

inline StoppableDisk disk;

}  // namespace burnish::test

// NOLINTNEXTLINE(misc-definitions-in-headers): one test program includes it once, in place of the C library's
extern "C" int fsync(int descriptor) { return burnish::test::disk.sync(descriptor); }
