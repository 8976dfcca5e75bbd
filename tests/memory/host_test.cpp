#include "memory/host.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>
#include <stdexcept>

#include "memory/failure.h"

using namespace burnish::memory;

TEST(HostMemory, IsWhatTheSystemSays) {
  auto memory = host_memory();
  EXPECT_GT(memory.total, int64_t{64} << 20);
  EXPECT_GT(memory.available, 0);
  EXPECT_LE(memory.available, memory.total);
  EXPECT_LE(size_of_host(), memory.total);
  auto own = own_memory();
  EXPECT_GT(own.resident, int64_t{1} << 20);
  EXPECT_GT(own.address_space, own.resident);
}

TEST(HostMemory, IsNoMoreThanWhatIsLeftOfTheAddressSpace) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  auto own = own_memory();
  rlimit less{static_cast<rlim_t>(own.address_space + (int64_t{64} << 20)), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  auto memory = host_memory();
  auto size = size_of_host();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(memory.address_space, static_cast<int64_t>(less.rlim_cur));
  EXPECT_NEAR(static_cast<double>(size), static_cast<double>(own.resident + (int64_t{64} << 20)), 8 << 20);
}

TEST(OutOfMemory, IsToldFromOtherFailures) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("can't allocate memory")));
}
