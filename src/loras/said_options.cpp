#include "loras/said_options.h"

#include <fmt/core.h>

#include "base/number.h"
#include "io/files.h"
#include "io/safetensors.h"
#include "models/registry.h"

namespace burnish::loras {

std::vector<std::string> take_said_options(const std::string& file, const std::vector<std::string>& given, models::OptionValues& own) {
  std::vector<std::string> lines;
  if (!file.ends_with(".safetensors") || !io::is_there(file)) return lines;
  const auto metadata = io::SafetensorsFile::open(file)->metadata();
  for (const auto& option : models::family_options()) {
    const auto said = metadata.find(option.name);
    if (said == metadata.end() || contains(given, option.name) || !std::holds_alternative<int64_t>(option.otherwise)) continue;
    const auto number = parse_number<int64_t>(said->second);
    const auto as_real = static_cast<double>(number.value_or(0));
    if (!number || as_real < option.least.value_or(as_real) || as_real > option.most.value_or(as_real)) continue;
    if (own.get<int64_t>(option.name) == *number) continue;
    own.set(option.name, *number);
    lines.push_back(fmt::format("{} was trained with {} {}, which is taken", file, option.name, *number));
  }
  return lines;
}

}  // namespace burnish::loras
