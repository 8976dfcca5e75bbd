#include "app/version.h"

#include <fmt/core.h>

#include "base/version.h"

/// The program alone has it (cmake/Commit.cmake), so that a commit links nothing else anew.
extern "C" [[gnu::weak]] const char burnish_commit[];

namespace burnish::app {

std::string version_text() {
  const auto* commit = burnish_commit;
  return commit == nullptr || *commit == 0 ? kVersion : fmt::format("{} ({})", kVersion, commit);
}

}  // namespace burnish::app
