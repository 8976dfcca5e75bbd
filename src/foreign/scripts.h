#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace burnish::foreign {

/// The words of one command of a script, without quotes.
using Command = std::vector<std::string>;

/// Reads the commands of a shell's script, or of a command line in a document: quotes taken off, comments and redirections left out, lines
/// that go on (\ of sh, ` of PowerShell) joined, as is a line that begins with an option. Variables and arrays that the script sets are put
/// in ($X, ${X}, ${X:-otherwise}, "${X[@]}"); what it does not set stays as it is written. Of `if` the branch is taken that the script's
/// own variables choose; where they do not, commands of all branches count and what they set does not.
std::vector<Command> commands_of_shell(std::string_view text);

/// Reads those of a batch file of Windows: ^ goes on, `set X=value` and `set "X=value"`, %X% and !X!, `if`, `rem` and `::`.
std::vector<Command> commands_of_batch(std::string_view text);

/// Tells whether a script without a name is a batch file, by commands that shells do not have.
bool looks_like_batch(std::string_view text);

}  // namespace burnish::foreign
