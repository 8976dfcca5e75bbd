#pragma once
#include <cstdint>
#include <string>

namespace burnish {

/// Bytes of "24GiB", "24 GB", "800MiB" or a number of GiB. A config Error of `room` names `option`.
int64_t parse_size(const char* room, const std::string& option, const std::string& text);

}  // namespace burnish
