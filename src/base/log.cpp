#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string_view>

namespace burnish {

void set_up_logging() {
  auto logger = spdlog::stderr_color_mt("burnish");
  logger->set_pattern("%v");
  spdlog::set_default_logger(logger);
  const char* word = std::getenv("BURNISH_LOG");
  if (word == nullptr || *word == 0) return;
  auto level = spdlog::level::from_str(word);  // "off" for words it does not know
  if (level == spdlog::level::off && std::string_view(word) != "off")
    return warn("BURNISH_LOG must be trace, debug, info, warning, error, critical or off, not '{}'; it is left at info", word);
  spdlog::set_level(level);
}

void log_info(fmt::string_view text, fmt::format_args values) { spdlog::info(fmt::vformat(text, values)); }
void log_warning(fmt::string_view text, fmt::format_args values) { spdlog::warn(fmt::vformat(text, values)); }

}  // namespace burnish
