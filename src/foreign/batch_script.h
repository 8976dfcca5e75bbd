#pragma once
#include <string_view>
#include <vector>

#include "foreign/script_words.h"

namespace burnish::foreign {

/// Reads those of a batch file of Windows: ^ goes on, `set X=value` and `set "X=value"`, %X% and !X!, `if`, `rem` and `::`.
std::vector<Command> commands_of_batch(std::string_view text);

/// Tells whether a script without a name is a batch file, by commands that shells do not have.
bool looks_like_batch(std::string_view text);

}  // namespace burnish::foreign
