#include "config/named_file.h"

#include <filesystem>

namespace burnish::config {

std::optional<std::string> named_file(const std::string& text) {
  std::error_code failed;
  if (std::filesystem::exists(text, failed)) return text;
  for (auto colon = text.rfind(':'); colon != text.npos && colon > 0; colon = text.rfind(':', colon - 1)) {
    auto file = text.substr(0, colon);
    if (std::filesystem::exists(file, failed)) return file;
  }
  return std::nullopt;
}

}  // namespace burnish::config
