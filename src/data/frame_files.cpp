#include "data/frame_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 17> kEndings{".png", ".apng", ".jpg",  ".jpeg", ".jfif", ".jpe", ".jpg_large", ".mpo", ".webp",
                                                    ".tif", ".tiff", ".heic", ".heif", ".avif", ".jxl", ".gif",       ".bmp"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes the digits at the start of a text, without zeros in front; these say which of two numbers is the larger.
std::string_view take_digits(std::string_view& text) {
  auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  auto digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

/// Whether a name comes before another where numbers in them count as such.
bool is_earlier(const fs::path& one, const fs::path& other) {
  const auto first = one.filename().string(), second = other.filename().string();
  std::string_view a = first, b = second;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      auto m = take_digits(a), n = take_digits(b);
      if (m != n) return m.size() != n.size() ? m.size() < n.size() : m < n;
      continue;
    }
    if (a[0] != b[0]) return a[0] < b[0];
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.empty() != b.empty() ? a.empty() : first < second;
}

}  // namespace

bool is_picture_name(const fs::path& path) {
  auto ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::vector<fs::path> frame_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code unreachable;
    bool is_frame = it->is_regular_file(unreachable) && is_picture_name(it->path()) && !it->path().filename().string().starts_with('.');
    if (is_frame) files.push_back(it->path());
  }
  std::ranges::sort(files, is_earlier);
  return files;
}

}  // namespace burnish::data
