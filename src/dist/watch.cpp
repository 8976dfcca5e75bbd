#include "dist/watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "base/say.h"

namespace burnish::dist {

namespace {

constexpr double kBeat = 0.5;          // seconds between two heartbeats
constexpr double kSilence = 15;        // after which a process, or the store, is taken for lost
constexpr double kShortSilence = 2.5;  // the same of a process where a collective has failed
constexpr double kGrace = 3;           // for the program to end by itself

/// The key that is there once a collective has failed: the one who looks after the lost process may not be one who noticed.
constexpr const char* kDoubt = "doubt";

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string beat_of(int64_t rank) { return fmt::format("beat/{}", rank); }

std::string store_of(const Seat& seat) {
  return seat.launcher_serves ? "the launcher, which keeps the store where processes meet,"
                              : "process 0, which keeps the store where processes meet,";
}

}  // namespace

bool is_told_first(Store& store) { return store.add("told", 1) == 1; }

bool tells_without_store(const Seat& seat) {
  bool store_was_here = seat.rank == seat.local_rank && !seat.launcher_serves;
  return seat.local_rank == (store_was_here ? 1 : 0);
}

std::string here_key(int64_t rank) { return fmt::format("here/{}", rank); }

Watch::Watch(const Seat& seat, std::shared_ptr<Store> store) : seat_(seat), store_(std::move(store)) {
  next_.heard_at = answered_at_ = now();
  store_->add(beat_of(seat_.rank), 1);
  clock_ = std::thread([this] { look_at_clock(); });
  try {
    asks_ = std::thread([this] { ask(); });
  } catch (...) {
    stop();
    clock_.join();
    throw;
  }
}

Watch::~Watch() {
  stop();
  clock_.join();
  asks_.join();
}

void Watch::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void Watch::look() const {
  std::lock_guard lock(mutex_);
  if (!failure_.sentence.empty()) throw Error(Exit::data, "dist", failure_.sentence);
}

bool Watch::is_cut_off() const {
  std::lock_guard lock(mutex_);
  return failure_.is_of_store;
}

std::string Watch::why(const std::string& what) {
  std::unique_lock lock(mutex_);
  doubts_ = true;
  changed_.wait_for(lock, std::chrono::duration<double>(kShortSilence + 4 * kBeat), [&] { return !failure_.sentence.empty(); });
  return failure_.sentence.empty() ? "processes lost each other: " + what : failure_.sentence;
}

void Watch::know(const std::string& sentence, bool is_of_store) {
  std::lock_guard lock(mutex_);
  failure_.is_of_store = failure_.is_of_store || is_of_store;
  if (!failure_.sentence.empty()) return;
  failure_.sentence = sentence;
  failure_.at = now();
  changed_.notify_all();
}

void Watch::look_after_next() {
  auto next = (seat_.rank + 1) % seat_.size;
  auto beats = store_->add(beat_of(next), 0);
  bool in_doubt = store_->has(kDoubt);
  {
    std::lock_guard lock(mutex_);
    if (beats != next_.beats) next_ = {beats, now()};
    if (now() - next_.heard_at < (in_doubt ? kShortSilence : kSilence)) return;
  }
  auto machine = seat_.local_size == seat_.size ? "" : fmt::format(" (on {})", store_->get(here_key(next)));
  if (store_->has(kFailed)) return;
  store_->set(kFailed, fmt::format("process {} of {}{} is gone or does not answer", next, seat_.size, machine));
  store_->add(kEnded, 1);  // in its place
}

void Watch::turn() {
  try {
    store_->add(beat_of(seat_.rank), 1);
    bool doubts = [&] {
      std::lock_guard lock(mutex_);
      answered_at_ = now();
      return doubts_;
    }();
    if (doubts) store_->set(kDoubt, "");
    if (store_->has(kFailed)) know(store_->get(kFailed));
    else look_after_next();
  } catch (const std::exception&) {
    know(store_of(seat_) + " is gone", true);
  }
}

/// The main thread is somewhere where it cannot be reached.
void Watch::end() {
  bool tells = tells_without_store(seat_);
  try {
    if (!failure_.is_of_store) {
      tells = is_told_first(*store_);
      store_->add(kEnded, 1);
    }
  } catch (const std::exception&) {  // it is gone since
  }
  if (tells) tell(stderr, "[dist] {}\n", failure_.sentence);
  std::fflush(nullptr);
  _exit(static_cast<int>(Exit::data));
}

/// Sleeps for a beat; whether to go on. Nobody was silent while this process was stopped itself.
bool Watch::sleep(std::unique_lock<std::mutex>& lock) {
  auto before = now();
  changed_.wait_for(lock, std::chrono::duration<double>(kBeat), [&] { return stopped_; });
  if (now() - before > kShortSilence) next_.heard_at = answered_at_ = now();
  return !stopped_;
}

void Watch::ask() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!sleep(lock)) return;
      if (!failure_.sentence.empty()) continue;
    }
    turn();
  }
}

void Watch::look_at_clock() {
  std::unique_lock lock(mutex_);
  while (sleep(lock)) {
    if (!failure_.sentence.empty() && now() - failure_.at >= kGrace) end();
    if (!failure_.sentence.empty() || now() - answered_at_ < kSilence) continue;
    lock.unlock();
    know(store_of(seat_) + " does not answer", true);
    lock.lock();
  }
}

}  // namespace burnish::dist
