#pragma once
#include <string_view>

namespace burnish::tokenizers {

/// The text of mended_text.rules.
extern const std::string_view kTextRules;

}  // namespace burnish::tokenizers
