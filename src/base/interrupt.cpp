#include "base/interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <initializer_list>

namespace burnish {

namespace {
volatile std::sig_atomic_t g_interrupts = 0;

const char* g_answer = "";

void say(const char* text) {
  auto written = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);  // whoever listened may be gone
}

/// A second Ctrl-C may be a slip; one that follows it within this time is not.
constexpr std::time_t kSecondsToConfirm = 5;
volatile std::time_t g_asked_at = 0;

/// Does only what a signal handler may.
void on_signal(int) {
  g_interrupts = g_interrupts + 1;
  if (*g_answer == 0) return;
  auto error = errno;
  auto now = std::time(nullptr);
  if (g_asked_at != 0 && now - g_asked_at <= kSecondsToConfirm) _exit(130);
  auto before = std::signal(SIGPIPE, SIG_IGN);
  say("\n");  // behind a progress bar
  say(g_answer);
  if (g_interrupts > 1) {
    g_asked_at = now;
    say("; once more within 5 seconds ends the program at once, and what is not saved is lost");
  }
  say("\n");
  std::signal(SIGPIPE, before);
  errno = error;
}
}  // namespace

void watch_for_interrupt(const char* answer) {
  g_answer = answer;
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU}) sigaction(signal, &action, nullptr);  // the latter are what SLURM sends
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // under nohup, runs outlive their terminal
  std::signal(SIGPIPE, SIG_IGN);                                           // whoever read what is said may be gone, and the work goes on
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes becomes a write error, which has a message
}

bool interrupted() { return g_interrupts > 0; }

}  // namespace burnish
