#pragma once

namespace burnish {

/// From here on Ctrl-C (or SIGTERM, or SIGHUP) is only remembered, and answered at once with `answer`, which says what happens now. The
/// second is answered as well, and a third one within five seconds of it ends the program at once. `answer` has to outlive the program's
/// run; an empty one is for a process that leaves the talking to another.
void watch_for_interrupt(const char* answer);

/// Whether Ctrl-C came since.
bool interrupted();

}  // namespace burnish
