#include "tokenizers/white_space.h"

#include <utf8proc.h>

#include <algorithm>

namespace burnish::tokenizers {

std::string_view stripped(std::string_view text) {
  constexpr int32_t kFirstSeparator = 0x1C, kLastSeparator = 0x1F;  // which Python takes for white space, and Unicode does not
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at, left, &code);
    const auto next = at + static_cast<size_t>(std::max<utf8proc_ssize_t>(size, 1));
    const bool is_white = size > 0 && (is_white_space(code) || (code >= kFirstSeparator && code <= kLastSeparator));
    if (!is_white) {
      begin = std::min(begin, at);
      end = next;
    }
    at = next;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

}  // namespace burnish::tokenizers
