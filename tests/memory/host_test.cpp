#include "memory/host.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>
#include <stdexcept>

#include "memory/failure.h"
#include "tests/made_up_system.h"

namespace burnish::host_test {
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

TEST(GroupLimit, IsTheLeastOfAGroupAndOfThoseAboveIt) {
  burnish::test::MadeUpSystem system;
  auto limit = [&] { return limit_of_group(system.root()); };
  EXPECT_EQ(limit(), std::nullopt) << "a system without groups";
  system.write("proc/self/cgroup", "0::/users/run\n");
  system.write("sys/fs/cgroup/users/run/memory.max", "max\n");
  EXPECT_EQ(limit(), std::nullopt);
  system.write("sys/fs/cgroup/users/memory.max", "3000000\n");
  EXPECT_EQ(limit(), 3000000);
  system.write("sys/fs/cgroup/users/run/memory.max", "2000000\n");
  EXPECT_EQ(limit(), 2000000);
  system.write("sys/fs/cgroup/users/run/memory.max", "4000000\n");
  EXPECT_EQ(limit(), 3000000) << "the least holds, whoever it is set to";
  system.write("sys/fs/cgroup/memory.max", "1000000\n");
  EXPECT_EQ(limit(), 1000000) << "as in a container, whose path is not there";
}

TEST(GroupLimit, IsReadOfTheFirstKindToo) {
  burnish::test::MadeUpSystem system;
  auto limit = [&] { return limit_of_group(system.root()); };
  system.write("proc/self/cgroup", "9:cpu,cpuacct:/run\n4:memory:/run\n0::/\n");
  system.write("sys/fs/cgroup/cpu/run/memory.limit_in_bytes", "1\n");
  system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), std::nullopt) << "as many pages as can be counted stand for no limit";
  system.write("sys/fs/cgroup/memory/run/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(limit(), 700000);
}

TEST(OutOfMemory, IsToldFromOtherFailures) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("can't allocate memory")));
}

}  // namespace burnish::host_test
