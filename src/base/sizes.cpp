#include "base/sizes.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"

namespace burnish {

int64_t parse_size(const char* room, const std::string& option, const std::string& text) {
  static const std::vector<std::pair<std::string, double>> kUnits{{"", 0x1p30},    {"gib", 0x1p30}, {"g", 0x1p30}, {"gb", 1e9},
                                                                  {"mib", 0x1p20}, {"m", 0x1p20},   {"mb", 1e6}};
  auto rest = trim(text);
  const auto number = take_number<double>(rest).value_or(0);
  std::string unit(trim(rest));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  auto found = std::ranges::find(kUnits, unit, &std::pair<std::string, double>::first);
  if (!(number > 0) || number > 1e9 || found == kUnits.end())
    config_error(room, "{} must be a size such as 24GiB, 24GB or 800MiB, not '{}'", option, text);
  return static_cast<int64_t>(number * found->second);
}

}  // namespace burnish
