#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
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
    threads_.reserve(static_cast<size_t>(std::max<int64_t>(num_threads, 0)));
    made_.resize(2 * threads_.capacity());
    try {
      for (int64_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {  // memory or the number of processes is limited: those that run are enough, and so is none
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
    auto& place = place_of(first_);
    is_made_.wait(lock, [&] { return place.value || place.error; });
    auto made = std::exchange(place, Made());
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

  Made& place_of(int64_t number) { return made_[static_cast<size_t>(number % std::ssize(made_))]; }

  /// Nothing may leave it, since that would end the program.
  void work() {
    try {
      compute_on_one_thread();
    } catch (const std::exception&) {  // all cores then have a part in it
    }
    std::unique_lock lock(mutex_);
    while (true) {
      may_make_.wait(lock, [&] { return begun_ >= num_values_ || begun_ - first_ < std::ssize(made_); });
      if (begun_ >= num_values_) return;
      auto number = begun_++;
      lock.unlock();
      Made made;
      try {
        made.value = make_(number);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      place_of(number) = std::move(made);
      is_made_.notify_one();
    }
  }

  int64_t num_values_;
  std::function<T(int64_t)> make_;
  std::mutex mutex_;
  std::condition_variable may_make_, is_made_;
  int64_t first_ = 0, begun_ = 0;  ///< the value that is taken next, and the first that nobody makes yet
  std::vector<Made> made_;         ///< values from `first_` on, in part still being made, each in the place of its number
  std::vector<std::thread> threads_;
};

}  // namespace burnish::data
