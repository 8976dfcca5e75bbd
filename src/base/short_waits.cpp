#include "base/short_waits.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <vector>

namespace burnish {

int64_t startable_threads(int64_t wanted) {
  std::mutex hold;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(std::max<int64_t>(wanted, 0)));
  try {
    const std::lock_guard all_at_once(hold);
    for (int64_t i = 0; i < wanted; ++i) threads.emplace_back([&hold] { const std::lock_guard wait(hold); });
  } catch (const std::exception&) {  // of the system, or memory for the thread's own book-keeping
  }
  for (auto& thread : threads) thread.join();
  return std::ssize(threads);
}

ShortWaits::ShortWaits() {
  auto num_threads = omp_get_num_procs() + 1;
  if (startable_threads(num_threads) < num_threads) return;  // libgomp ends the program when it gets none
  try {
    thread_ = std::thread([this, num_threads] { hold(num_threads); });
  } catch (const std::system_error&) {
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_ready_; });
}

ShortWaits::~ShortWaits() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ShortWaits::hold(int num_threads) {
  omp_set_dynamic(0);            // of this thread alone
  std::atomic<int> started = 0;  // a region without a body is left out by compilers
#pragma omp parallel num_threads(num_threads)
  started.fetch_add(1);
  std::unique_lock lock(mutex_);
  is_ready_ = true;
  is_open_ = started == num_threads;
  changed_.notify_all();
  changed_.wait(lock, [this] { return ends_; });
}

}  // namespace burnish
