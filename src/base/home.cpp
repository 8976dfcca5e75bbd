#include "base/home.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace burnish {

namespace {

/// The user's home folder: that of the environment, else that of the account; of a user without an account "/".
std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const auto* account = getpwuid(getuid());
  return account != nullptr && account->pw_dir != nullptr ? account->pw_dir : "/";
}

}  // namespace

std::string with_home(const std::string& path) {
  const bool is_below = path == "~" || path.starts_with("~/");
  return is_below ? home_folder() + path.substr(1) : path;
}

}  // namespace burnish
