#pragma once
#include <string_view>
#include <vector>

#include "foreign/script_words.h"

namespace burnish::foreign {

/// Reads the commands of a shell's script, or of a command line in a document: quotes taken off, comments and redirections left out, lines
/// that go on (\ of sh, ` of PowerShell) joined, as is a line that begins with an option. Variables and arrays that the script sets are put
/// in ($X, ${X}, ${X:-otherwise}, "${X[@]}"); what it does not set stays as it is written. Of `if` the branch is taken that the script's
/// own variables choose; where they do not, commands of all branches count and what they set does not.
std::vector<Command> commands_of_shell(std::string_view text);

}  // namespace burnish::foreign
