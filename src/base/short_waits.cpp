#include "base/short_waits.h"

#include <omp.h>

#include <atomic>
#include <system_error>
#include <vector>

namespace burnish {

namespace {

/// Whether the system lets this process have so many threads more. libgomp ends the program when it gets none.
bool has_room_for(int num_threads) {
  std::mutex hold;
  std::vector<std::thread> threads;
  bool has_room = true;
  try {
    const std::lock_guard all_at_once(hold);
    for (int i = 0; i < num_threads; ++i) threads.emplace_back([&hold] { const std::lock_guard wait(hold); });
  } catch (const std::system_error&) {
    has_room = false;
  }
  for (auto& thread : threads) thread.join();
  return has_room;
}

}  // namespace

ShortWaits::ShortWaits() {
  auto num_threads = omp_get_num_procs() + 1;
  if (!has_room_for(num_threads)) return;
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
