#include "base/interrupt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

using namespace burnish;

namespace {

struct EndedChild {
  int status = 0;
  std::string said;
};

/// What a process does that gets `num_signals` and then ends with 0.
EndedChild after(int num_signals) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  auto child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    watch_for_interrupt("interrupted: the answer");
    for (int i = 0; i < num_signals; ++i) std::raise(SIGINT);
    _exit(interrupted() == (num_signals > 0) ? 0 : 1);
  }
  close(ends[1]);
  EndedChild ended;
  waitpid(child, &ended.status, 0);
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) ended.said.append(part, static_cast<size_t>(n));
  close(ends[0]);
  return ended;
}

}  // namespace

TEST(Interrupt, TheThirdEndsTheProgram) {
  EXPECT_EQ(after(0).said, "");
  auto once = after(1), twice = after(2), thrice = after(3);
  EXPECT_EQ(WEXITSTATUS(once.status), 0);
  EXPECT_EQ(once.said, "\ninterrupted: the answer\n");
  EXPECT_EQ(WEXITSTATUS(twice.status), 0);
  EXPECT_EQ(twice.said,
            once.said + "\ninterrupted: the answer; once more within 5 seconds ends the program at once, and what is not saved is lost\n");
  EXPECT_EQ(WEXITSTATUS(thrice.status), 130);
  EXPECT_EQ(thrice.said, twice.said);
}
