#include "io/user_cache.h"

#include <cstdlib>
#include <utility>

#include "base/home.h"

namespace burnish::io {

std::filesystem::path user_cache() {
  for (auto [name, below] : {std::pair{"XDG_CACHE_HOME", ""}, std::pair{"HOME", ".cache"}}) {
    if (const char* value = std::getenv(name); value && *value) return std::filesystem::path(with_home(value)) / below / "burnish";
  }
  return {};
}

}  // namespace burnish::io
