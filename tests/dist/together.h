#pragma once
#include <functional>
#include <thread>
#include <vector>

#include "dist/store.h"
#include "dist/world.h"

namespace burnish::test {

/// Runs `work` in so many processes at once, which are threads here, each with a connection of its own; what each gives, by rank.
template <class Result>
std::vector<Result> together(int64_t size, const std::function<Result(const dist::World&)>& work, bool all_end_well = true) {
  setenv("BURNISH_CHECK_COLLECTIVES", "1", 1);
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // c10d's record of what was begun is one for the process and not made for several threads
  auto store = dist::serve_store("127.0.0.1", 0);
  std::vector<Result> results(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      dist::Seat seat{.rank = rank, .size = size, .local_rank = rank, .local_size = size, .launcher = "a test", .host = "127.0.0.1"};
      seat.port = store->port();
      seat.launcher_serves = true;
      dist::World world(seat);
      world.join(c10::Device(c10::kCPU), 30);
      results[static_cast<size_t>(rank)] = work(world);
      if (all_end_well) world.leave();
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

}  // namespace burnish::test
