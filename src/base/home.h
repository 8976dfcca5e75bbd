#pragma once
#include <string>

namespace burnish {

/// Puts the user's home folder in the place of the "~" of "~" or "~/x", as a shell does where neither quotes nor "--option=" stand before
/// it. Every other text stays as it is.
std::string with_home(const std::string& path);

}  // namespace burnish
