#pragma once

namespace burnish {

/// The version of the project, as packages have it; CMakeLists.txt reads it here.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace burnish
