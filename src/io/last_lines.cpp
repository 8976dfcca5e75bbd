#include "io/last_lines.h"

#include <algorithm>
#include <fstream>

namespace burnish::io {

std::string last_lines(const std::filesystem::path& file, size_t most_bytes, uint64_t from) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return "";
  stream.seekg(0, std::ios::end);
  const auto size = static_cast<uint64_t>(stream.tellg()), first = std::min(from, size);
  const auto begin = size - first > most_bytes ? size - most_bytes : first;
  stream.seekg(static_cast<std::streamoff>(begin));
  std::string text(size - begin, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (begin > first) text.erase(0, text.find('\n') + 1);
  return text;
}

}  // namespace burnish::io
