#pragma once
#include "config/fields.h"

namespace burnish::config {

/// Returns the names of options that have another value than the same ones of `untouched`, in their order.
std::vector<std::string> changed(const Fields& values, const Fields& untouched);

}  // namespace burnish::config
