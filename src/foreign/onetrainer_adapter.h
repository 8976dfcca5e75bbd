#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_onetrainer {

/// The rows of the model that is trained, and of how its weights are held.
void model_rows(Table& table);
/// The rows of what trains of it.
void adapter_rows(Table& table);

}  // namespace burnish::foreign::of_onetrainer
