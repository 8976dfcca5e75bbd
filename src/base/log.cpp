#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace burnish {

void set_up_logging() {
  auto logger = spdlog::stderr_color_mt("burnish");
  logger->set_pattern("%v");
  spdlog::set_default_logger(logger);
  if (const char* level = std::getenv("BURNISH_LOG")) spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace burnish
