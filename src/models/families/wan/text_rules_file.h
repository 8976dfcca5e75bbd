#pragma once
#include <string_view>

namespace burnish::models::wan {

/// The text of mended_text.rules.
extern const std::string_view kTextRules;

}  // namespace burnish::models::wan
