#include "base/shortened.h"

namespace burnish {

std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  auto end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // no half of a character
  return text.substr(0, end) + "...";
}

}  // namespace burnish
