#pragma once
#include <string>
#include <vector>

namespace burnish::dist {

/// Starts `count` processes of `command` on this machine, each with the variables that find_seat reads, and waits for them. When one ends
/// with an error the others are told to end as well, and are killed 6 s later. SIGINT, SIGTERM and SIGHUP are passed on. The exit status
/// of the first that failed, or 0. `said` gets a sentence about one that a signal ended, which could not say anything itself.
int launch(int64_t count, const std::vector<std::string>& command, std::string& said);

}  // namespace burnish::dist
