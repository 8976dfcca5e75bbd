#pragma once
#include <string_view>

namespace burnish::models {

/// A published model beside those of a family that its code cannot run.
struct NotSupported {
  std::string_view id;   ///< the end of its id on hubs, or the beginning of that end
  std::string_view why;  ///< what it has that the family lacks
};

}  // namespace burnish::models
