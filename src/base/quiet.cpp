#include "base/quiet.h"

#include <spdlog/spdlog.h>

namespace burnish {

QuietLog::QuietLog() : level_(spdlog::get_level()) { spdlog::set_level(spdlog::level::off); }
QuietLog::~QuietLog() { spdlog::set_level(static_cast<spdlog::level::level_enum>(level_)); }

}  // namespace burnish
