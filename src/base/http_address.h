#pragma once
#include <string_view>

namespace burnish {

/// Tells whether a text begins as an address of http or https.
inline bool is_http(std::string_view text) { return text.starts_with("http://") || text.starts_with("https://"); }

}  // namespace burnish
