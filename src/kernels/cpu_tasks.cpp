#include "kernels/cpu_tasks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>

#include "kernels/bf16_pairs.h"

namespace burnish::kernels {

void for_tasks(int64_t count, int64_t num_bytes, const at::Tensor& like, const std::function<void(int64_t, std::byte*)>& task) {
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), count);
  auto memory = at::empty({threads * num_bytes + Pieces::kLine}, like.options().dtype(at::kByte));
  if (like.is_meta()) return;
  auto* unaligned = reinterpret_cast<std::byte*>(memory.mutable_data_ptr<uint8_t>());
  auto* start = unaligned + (Pieces::kLine - reinterpret_cast<std::uintptr_t>(unaligned) % Pieces::kLine);
  at::parallel_for(0, count, (count + threads - 1) / threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(i, start + at::get_thread_num() * num_bytes);
    release_products();
  });
}

}  // namespace burnish::kernels
