#include "base/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace burnish {

namespace {
volatile std::sig_atomic_t g_interrupts = 0;

void on_signal(int) {
  g_interrupts = g_interrupts + 1;
  if (g_interrupts > 1) _exit(130);
}
}  // namespace

void watch_for_interrupt() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // under nohup, runs outlive their terminal
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes becomes a write error, which has a message
}

bool interrupted() { return g_interrupts > 0; }

}  // namespace burnish
