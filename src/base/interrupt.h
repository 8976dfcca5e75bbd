#pragma once

namespace burnish {

/// From here on the first Ctrl-C (or SIGTERM, or SIGHUP) is only remembered; a second one ends the program at once.
void watch_for_interrupt();

/// Whether Ctrl-C came since.
bool interrupted();

}  // namespace burnish
