#pragma once
#include <string>

namespace burnish {

/// The name of this machine; "" where it has none.
std::string host_name();

}  // namespace burnish
