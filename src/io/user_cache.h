#pragma once
#include <filesystem>

namespace burnish::io {

/// The folder of what saves a user time in other runs: "burnish" in $XDG_CACHE_HOME or ~/.cache; "" where neither is known.
std::filesystem::path user_cache();

}  // namespace burnish::io
