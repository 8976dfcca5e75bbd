// How much of a machine's processors a container leaves to a process, by files as systems have them.
#include "base/cgroup.h"

#include <gmock/gmock.h>

#include "tests/made_up_system.h"

using namespace burnish;

TEST(CpuQuota, OfTheUnifiedHierarchyIsTheLeastOnTheWay) {
  test::MadeUpSystem system;
  auto quota = [&] { return cpu_quota(system.root()); };
  EXPECT_FALSE(quota().has_value()) << "no groups";
  system.write("proc/self/cgroup", "0::/users/run\n");
  system.write("sys/fs/cgroup/users/run/cpu.max", "max 100000\n");
  EXPECT_FALSE(quota().has_value());
  system.write("sys/fs/cgroup/users/cpu.max", "350000 100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 3.5);
  system.write("sys/fs/cgroup/users/run/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 2);
  system.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(quota().value(), 0.5);
}

TEST(CpuQuota, OfTheFirstKindIsQuotaOverPeriod) {
  test::MadeUpSystem system;
  system.write("proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/run\n0::/\n");
  system.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  system.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cpu_quota(system.root()).has_value()) << "-1 is none";
  system.write("sys/fs/cgroup/cpu/run/cpu.cfs_quota_us", "150000\n");
  system.write("sys/fs/cgroup/cpu/run/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(system.root()).value(), 1.5);
}
