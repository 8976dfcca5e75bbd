#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_simpletuner {

/// Tells settings of MiniMax-H3.
bool is_h3(const Settings& all);

/// Puts the settings of its distiller, wherever distillation_config has them, below "h3_drift".
void put_h3_drift(Value& options);

/// The rows of its names that need code.
void h3_rows(Table& table);

}  // namespace burnish::foreign::of_simpletuner
