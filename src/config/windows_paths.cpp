#include "config/windows_paths.h"

#include <cctype>

namespace burnish::config {

bool is_path_of_windows(std::string_view name) {
  return name.size() > 2 && std::isalpha(static_cast<unsigned char>(name[0])) && name[1] == ':' && (name[2] == '/' || name[2] == '\\');
}

}  // namespace burnish::config
