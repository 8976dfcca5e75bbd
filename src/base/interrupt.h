#pragma once

namespace burnish {

/// Remembers Ctrl-C (or SIGTERM, or SIGHUP) from here on, and answers it at once with `answer`, which says what happens now. The second is
/// answered as well, and a third one within five seconds of it ends the program at once. `answer` has to outlive the program's run; an
/// empty one is for a process that leaves the talking to another.
void watch_for_interrupt(const char* answer);

/// Tells whether Ctrl-C came since.
bool interrupted();

}  // namespace burnish
