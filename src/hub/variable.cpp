#include "hub/variable.h"

#include <cstdlib>

#include "base/text.h"

namespace burnish::hub {

std::string variable(std::initializer_list<const char*> names, const std::string& otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value && *value) return std::string(trim(value));
  }
  return otherwise;
}

}  // namespace burnish::hub
