#include "base/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/cgroup.h"
#include "base/core_watch.h"
#include "base/short_waits.h"

namespace burnish {

int64_t usable_cores() {
  auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  auto quota = cpu_quota();
  return quota ? std::clamp<int64_t>(static_cast<int64_t>(std::ceil(*quota)), 1, cores) : cores;
}

void start_threads() {
  static int64_t num_started = 1;  // of the thread that calls
  const int64_t wanted = at::get_num_threads();
  if (wanted <= num_started) return;
  num_started += startable_threads(wanted - num_started);
  if (num_started < wanted) at::set_num_threads(static_cast<int>(num_started));
  std::atomic<int64_t> present = 0;  // a region without a body is left out by compilers
#pragma omp parallel num_threads(static_cast <int>(num_started))
  present.fetch_add(1);
}

void set_threads(int64_t wanted, int64_t processes) {
  auto cores = usable_cores();
  bool has_all = processes <= 1 && cores == static_cast<int64_t>(std::thread::hardware_concurrency());  // libtorch's own number stays
  if (wanted > 0) at::set_num_threads(static_cast<int>(wanted));
  else if (!has_all) at::set_num_threads(static_cast<int>(std::max<int64_t>(1, cores / std::max<int64_t>(1, processes))));
  start_threads();
  auto allowed = std::min(static_cast<double>(cores), cpu_quota().value_or(static_cast<double>(cores)));
  if (at::get_num_threads() > 1) watch_cores(allowed);  // one thread waits for no other
}

}  // namespace burnish
