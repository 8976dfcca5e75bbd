#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace burnish::data {

/// Keeps the calling thread's tensor operations to itself, instead of sharing each out among all cores.
void compute_on_one_thread();

/// Makes values 0, 1, 2 and so on worker threads before they are asked for, and hands them out in that order. Of what was not taken yet at
/// most two values a thread are there or being made, so memory is bounded. Without threads a value is made when it is taken.
template <class T>
class ReadAhead {
 public:
  /// `make` is called on several threads at once; what it refers to must outlive this object.
  ReadAhead(int64_t num_values, int64_t num_threads, std::function<T(int64_t)> make) : num_values_(num_values), make_(std::move(make)) {
    num_threads = std::min(num_threads, num_values);
    most_ahead_ = 2 * num_threads;
    try {
      for (int64_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // memory or the number of processes is limited: those that run are enough, and so is none
    }
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// Ends once the values that are being made are done.
  ~ReadAhead() {
    {
      std::lock_guard lock(mutex_);
      num_values_ = 0;
    }
    may_make_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// The next value; throws what its making threw.
  T next() {
    if (threads_.empty()) return make_(first_++);
    std::unique_lock lock(mutex_);
    is_made_.wait(lock, [&] { return !made_.empty() && (made_.front().value || made_.front().error); });
    auto made = std::move(made_.front());
    made_.pop_front();
    ++first_;
    may_make_.notify_one();
    if (made.error) std::rethrow_exception(made.error);
    return std::move(*made.value);
  }

 private:
  struct Made {
    std::optional<T> value = {};
    std::exception_ptr error = {};
  };

  void work() {
    compute_on_one_thread();
    std::unique_lock lock(mutex_);
    while (true) {
      may_make_.wait(lock, [&] { return begun_ >= num_values_ || std::ssize(made_) < most_ahead_; });
      if (begun_ >= num_values_) return;
      auto number = begun_++;
      auto& place = made_.emplace_back();  // a deque leaves it where it is while its ends change
      lock.unlock();
      Made made;
      try {
        made.value = make_(number);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      place = std::move(made);
      is_made_.notify_one();
    }
  }

  int64_t num_values_, most_ahead_ = 0;
  std::function<T(int64_t)> make_;
  std::mutex mutex_;
  std::condition_variable may_make_, is_made_;
  int64_t first_ = 0, begun_ = 0;  ///< the value that is taken next, and the first that nobody makes yet
  std::deque<Made> made_;          ///< values from `first_` on, in part still being made
  std::vector<std::thread> threads_;
};

}  // namespace burnish::data
