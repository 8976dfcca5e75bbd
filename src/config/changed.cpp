#include "config/changed.h"

namespace burnish::config {

std::vector<std::string> changed(const Fields& values, const Fields& untouched) {
  std::vector<std::string> names;
  for (size_t i = 0; i < values.list().size(); ++i) {
    if (value_text(values.list()[i]) != value_text(untouched.list()[i])) names.push_back(values.list()[i].name);
  }
  return names;
}

}  // namespace burnish::config
