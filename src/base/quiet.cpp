#include "base/quiet.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace burnish {

QuietLog::QuietLog() : level_(spdlog::get_level()) { spdlog::set_level(std::max(spdlog::get_level(), spdlog::level::err)); }
QuietLog::~QuietLog() { spdlog::set_level(static_cast<spdlog::level::level_enum>(level_)); }

}  // namespace burnish
