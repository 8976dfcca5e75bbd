#include "tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace burnish::tokenizers {

std::string to_utf8(int32_t code) {
  utf8proc_uint8_t bytes[4];
  auto n = utf8proc_encode_char(code, bytes);
  return {reinterpret_cast<char*>(bytes), static_cast<size_t>(n)};
}

/// Returns how many of the first bytes, which are no UTF-8, could begin a character; 1 where none could.
static utf8proc_ssize_t broken_length(const utf8proc_uint8_t* bytes, utf8proc_ssize_t left) {
  const auto lead = bytes[0];
  const utf8proc_ssize_t whole = lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead >= 0xF0 && lead < 0xF5 ? 4 : 1;
  // The second byte rules out what is overlong, a surrogate, or too large.
  const int least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80, most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  utf8proc_ssize_t length = 1;
  for (; length < std::min(whole, left); ++length) {
    const bool is_second = length == 1;
    if (bytes[length] < (is_second ? least : 0x80) || bytes[length] > (is_second ? most : 0xBF)) break;
  }
  return length;
}

std::vector<int32_t> code_points(std::string_view text) {
  std::vector<int32_t> codes;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    auto n = utf8proc_iterate(at, left, &code);
    if (n <= 0) {
      n = broken_length(at, left);
      code = 0xFFFD;
    }
    codes.push_back(code);
    at += n;
    left -= n;
  }
  return codes;
}

std::vector<int32_t> compose(const std::vector<int32_t>& codes) {
  std::vector<int32_t> split;
  for (auto code : codes) {
    std::array<utf8proc_int32_t, 32> buffer{};
    int boundary = 0;
    auto n = utf8proc_decompose_char(code, buffer.data(), buffer.size(), UTF8PROC_DECOMPOSE, &boundary);
    if (n > 0) split.insert(split.end(), buffer.begin(), buffer.begin() + n);
  }
  // Marks are brought into canonical order before they are composed.
  for (size_t i = 0; i < split.size();) {
    size_t j = i;
    while (j < split.size() && utf8proc_get_property(split[j])->combining_class != 0) ++j;
    std::stable_sort(
        split.begin() + static_cast<std::ptrdiff_t>(i), split.begin() + static_cast<std::ptrdiff_t>(j),
        [](int32_t a, int32_t b) { return utf8proc_get_property(a)->combining_class < utf8proc_get_property(b)->combining_class; });
    i = std::max(j, i + 1);
  }
  auto n = utf8proc_normalize_utf32(split.data(), static_cast<utf8proc_ssize_t>(split.size()),
                                    static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  split.resize(static_cast<size_t>(std::max<utf8proc_ssize_t>(n, 0)));
  return split;
}

bool is_letter(int32_t code) {
  auto category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_number(int32_t code) {
  auto category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_mark(int32_t code) {
  auto category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_no_small_letter(int32_t code) { return is_mark(code) || (is_letter(code) && utf8proc_category(code) != UTF8PROC_CATEGORY_LL); }

bool is_no_capital(int32_t code) {
  auto category = utf8proc_category(code);
  return is_mark(code) || (is_letter(code) && category != UTF8PROC_CATEGORY_LU && category != UTF8PROC_CATEGORY_LT);
}

}  // namespace burnish::tokenizers
