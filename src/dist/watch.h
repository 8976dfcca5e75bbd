#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dist/place.h"
#include "dist/store.h"

namespace burnish::dist {

/// The key of the sentence about what ends a run.
inline constexpr const char* kFailed = "failed";

/// The key of how many processes know that the run has failed and need the store no more.
inline constexpr const char* kEnded = "ended";

/// Whether nobody has printed yet why the processes end; the first to ask is to do so.
bool is_told_first(Store& store);

/// A thread that says once a second that this process lives, and learns whether the others do: each process looks after the next one.
/// When one has failed, the process ends with a sentence a few seconds later, unless it ended by itself before.
class Watch {
 public:
  Watch(const Place& place, std::shared_ptr<Store> store);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Throws the Error about a process that has failed, once that is known.
  void look() const;
  /// The sentence about a collective that failed with `what`: waits for a moment until it is known whose fault it was.
  std::string why(const std::string& what);
  /// From here on it does not matter who is there.
  void stop();

 private:
  void run();
  void turn();
  void look_after_next();
  [[noreturn]] void end();
  void know(const std::string& sentence);

  Place place_;
  std::shared_ptr<Store> store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;  ///< "" while all is well
  bool stopped_ = false;
  int64_t beats_of_next_ = -1;
  double silent_since_ = 0, failed_at_ = 0;
  bool blames_ = false;  ///< a collective failed: silence is believed sooner
  std::thread thread_;
};

}  // namespace burnish::dist
