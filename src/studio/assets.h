#pragma once
#include <string_view>
#include <vector>

namespace burnish::studio {

/// A file of src/studio/page/, in the program: CMake writes them into a source file.
struct Asset {
  std::string_view name, text;
  const char* media_type;
};
extern const std::vector<Asset> kAssets;

}  // namespace burnish::studio
