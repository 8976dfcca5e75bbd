#pragma once
#include <vector>

#include "foreign/table.h"

namespace burnish::foreign {

/// Tells settings of MiniMax-H3.
bool of_musubi_h3(const Settings& all);

/// Tells settings of its clips, whose sound is learned with them.
bool hears_h3(const Settings& all);

/// The rows of its names that need code.
std::vector<SettingRow> musubi_h3_rows();

}  // namespace burnish::foreign
