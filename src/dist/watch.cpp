#include "dist/watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>

#include "base/error.h"

namespace burnish::dist {

namespace {

constexpr double kBeat = 0.5;          // seconds between two heartbeats
constexpr double kSilence = 15;        // after which a process is taken for lost
constexpr double kShortSilence = 2.5;  // the same where a collective has failed
constexpr double kGrace = 3;           // for the program to end by itself

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string beat_of(int64_t rank) { return fmt::format("beat/{}", rank); }

}  // namespace

bool is_told_first(Store& store) { return store.add("told", 1) == 1; }

Watch::Watch(const Place& place, std::shared_ptr<Store> store) : place_(place), store_(std::move(store)), silent_since_(now()) {
  store_->add(beat_of(place_.rank), 1);
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  stop();
  thread_.join();
}

void Watch::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void Watch::look() const {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(Exit::data, "dist", failure_);
}

std::string Watch::why(const std::string& what) {
  std::unique_lock lock(mutex_);
  blames_ = true;
  changed_.wait_for(lock, std::chrono::duration<double>(kShortSilence + 4 * kBeat), [&] { return !failure_.empty(); });
  return failure_.empty() ? "processes lost each other: " + what : failure_;
}

void Watch::know(const std::string& sentence) {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = sentence;
  failed_at_ = now();
  changed_.notify_all();
}

void Watch::look_after_next() {
  auto next = (place_.rank + 1) % place_.size;
  auto beats = store_->add(beat_of(next), 0);
  std::unique_lock lock(mutex_);
  if (beats != beats_of_next_) {
    beats_of_next_ = beats;
    silent_since_ = now();
    return;
  }
  bool lost = now() - silent_since_ > (blames_ ? kShortSilence : kSilence);
  lock.unlock();
  if (lost) store_->set(kFailed, fmt::format("process {} of {} is gone or does not answer", next, place_.size));
}

void Watch::turn() {
  try {
    store_->add(beat_of(place_.rank), 1);
    if (store_->has(kFailed)) know(store_->get(kFailed));
    else look_after_next();
  } catch (const std::exception&) {
    know(place_.launcher_serves ? "the launcher, which keeps the store where processes meet, is gone"
                                : "process 0, which keeps the store where processes meet, is gone");
  }
}

/// The main thread is somewhere where it cannot be reached.
void Watch::end() {
  bool tells = true;
  try {
    tells = is_told_first(*store_);
    store_->add(kEnded, 1);
  } catch (const std::exception&) {  // without a store each tells by itself
  }
  if (tells) fmt::print(stderr, "[dist] {}\n", failure_);
  std::fflush(nullptr);
  _exit(static_cast<int>(Exit::data));
}

void Watch::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::duration<double>(kBeat), [&] { return stopped_; });
      if (stopped_) return;
      if (!failure_.empty()) {
        if (now() - failed_at_ < kGrace) continue;
        end();
      }
    }
    turn();
  }
}

}  // namespace burnish::dist
