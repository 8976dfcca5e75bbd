// The watch over a made-up system, whose files tell of neighbours that come and go.
#include "base/core_watch.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "tests/made_up_system.h"

using namespace burnish;

namespace {

using namespace std::chrono_literals;

/// Has what is logged go into a text while it lives.
class Heard {
 public:
  Heard() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("heard", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
    spdlog::set_pattern("%v");
  }
  ~Heard() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

/// A thread that hardly runs, and queues for hours from one look to the next while there are neighbours.
class QueueingThread {
 public:
  QueueingThread() { write(); }
  std::string root() const { return system_.root(); }

  /// Whether the watch comes to find `sleeps` within a minute.
  bool comes_to(const CoreWatch& watch, bool sleeps) {
    for (int i = 0; i < 30000 && watch.sleeps() != sleeps; ++i) {
      if (sleeps) ++hours_;
      write();
      std::this_thread::sleep_for(2ms);
    }
    return watch.sleeps() == sleeps;
  }

 private:
  void write() { system_.write("proc/self/task/1/schedstat", "1000 " + std::to_string(hours_) + "000000000000 7\n"); }

  test::MadeUpSystem system_;
  int64_t hours_ = 1;
};

}  // namespace

TEST(CoreWatch, SleepsBesideNeighboursAndSaysSoOnce) {
  Heard heard;
  QueueingThread thread;
  {
    CoreWatch watch(2, thread.root(), 10ms);
    EXPECT_FALSE(watch.sleeps());
    EXPECT_TRUE(thread.comes_to(watch, true));
    EXPECT_TRUE(thread.comes_to(watch, false));
    EXPECT_TRUE(thread.comes_to(watch, true));
  }
  EXPECT_EQ(heard.text(), "other programs use cores of this machine: threads wait asleep while they do\n");
}

TEST(CoreWatch, SeesNothingWhereSystemsCountNothing) {
  test::MadeUpSystem system;
  CoreWatch watch(2, system.root(), 1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(watch.sleeps());
}

TEST(CoreWatch, EndsWithTheProgramAndWithItsForks) {
  auto ends_well = [](pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
  };
  auto child = fork();
  if (child == 0) {
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    watch_cores(2);
    watch_cores(2);
    auto grandchild = fork();
    if (grandchild == 0) std::exit(7);  // which takes down static values
    std::exit(ends_well(grandchild) ? 7 : 1);
  }
  EXPECT_TRUE(ends_well(child));
}
