#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dist/seat.h"
#include "dist/store.h"

namespace burnish::dist {

/// The key under which a process says on which machine it is.
std::string here_key(int64_t rank);

/// The key of the sentence about what ends a run.
inline constexpr const char* kFailed = "failed";

/// The key of how many processes know that the run has failed and need the store no more.
inline constexpr const char* kEnded = "ended";

/// Tells whether nobody has printed yet why the processes end; the first to ask is to do so.
bool is_told_first(Store& store);
/// Tells whether this process is the one of its machine that prints the sentence where the store is gone, and nobody can be asked.
bool tells_without_store(const Seat& seat);

/// Threads that say twice a second that this process lives, and learn whether the others do: each process looks after the next one, and all
/// after the store. When one has failed, the process ends with a sentence a few seconds later, unless it ended by itself before.
class Watch {
 public:
  Watch(const Seat& seat, std::shared_ptr<Store> store);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Throws the Error about a process that has failed, once that is known.
  void look() const;
  /// The sentence about a collective that failed with `what`: waits for a moment until it is known whose fault it was.
  std::string why(const std::string& what);
  /// Tells whether the store has not answered: whoever asks it may wait for ever.
  bool is_cut_off() const;
  /// Stops watching: from here on it does not matter who is there.
  void stop();

 private:
  void look_at_clock();
  void ask();
  void turn();
  void look_after_next();
  [[noreturn]] void end();
  void know(const std::string& sentence, bool is_of_store = false);
  bool sleep(std::unique_lock<std::mutex>& lock);

  Seat seat_;
  std::shared_ptr<Store> store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  /// The end of a run by a failure; no sentence while all is well.
  struct Failure {
    std::string sentence = {};
    double at = 0;
    bool is_of_store = false;
  } failure_;
  /// The process that this one looks after.
  struct Next {
    int64_t beats = -1;
    double heard_at = 0;
  } next_;
  double answered_at_ = 0;  ///< when the store answered last
  bool stopped_ = false;
  bool doubts_ = false;       ///< a collective failed here
  std::thread clock_, asks_;  ///< the second waits for answers of the store, the first for nothing
};

}  // namespace burnish::dist
