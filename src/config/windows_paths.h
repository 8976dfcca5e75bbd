#pragma once
#include <string_view>

namespace burnish::config {

/// Tells whether a name is a whole path of Windows, C:/runs or C:\runs, which leads nowhere on other systems.
bool is_path_of_windows(std::string_view name);

}  // namespace burnish::config
