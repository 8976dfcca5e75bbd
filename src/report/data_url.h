#pragma once
#include <string>
#include <string_view>

namespace burnish::report {

/// The bytes of a file of that kind as a URL, so that a page holds them itself: data:image/webp;base64,...
std::string data_url(std::string_view kind, std::string_view bytes);

}  // namespace burnish::report
