#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_simpletuner {

/// Tells settings of LTX-2, 2.3 and 2.5.
bool is_ltx(const Settings& all);

/// Tells whether its flavour is one whose model on a hub is known here.
bool is_known_ltx(const Settings& all);

/// The layers that carry LoRAs beside `attention`, where clips are heard.
std::string ltx_targets(const std::string& attention, const Settings& all);

/// The rows of its names that need code.
void ltx_rows(Table& table);

}  // namespace burnish::foreign::of_simpletuner
