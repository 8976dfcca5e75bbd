#include "base/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <thread>

namespace burnish {

void set_threads(int64_t wanted, int64_t processes) {
  if (wanted > 0) return at::set_num_threads(static_cast<int>(wanted));
  if (processes > 1) at::set_num_threads(static_cast<int>(std::max<int64_t>(1, std::thread::hardware_concurrency() / processes)));
}

}  // namespace burnish
