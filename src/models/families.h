#pragma once
#include <vector>

#include "models/model/family.h"

namespace burnish::models {

/// Lists the families of src/models/families.txt, in its order.
std::vector<const Family*> built_in_families();

}  // namespace burnish::models
