#pragma once
#include <string>

namespace burnish::app {

/// Returns the version and, where the program was built in a checkout, its commit: "0.1.0 (1a2b3c4d5e6f)"; changes that were not committed
/// are told by a plus behind it.
std::string version_text();

}  // namespace burnish::app
