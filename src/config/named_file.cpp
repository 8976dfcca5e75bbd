#include "config/named_file.h"

#include <filesystem>

namespace burnish::config {

std::optional<std::string> named_file(const std::string& text) {
  std::error_code failed;
  if (std::filesystem::exists(text, failed)) return text;
  const auto colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return std::nullopt;
  auto file = text.substr(0, colon);
  if (!std::filesystem::exists(file, failed)) return std::nullopt;
  return file;
}

}  // namespace burnish::config
