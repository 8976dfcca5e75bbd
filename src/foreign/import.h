#pragma once
#include <filesystem>
#include <string>

#include "foreign/table.h"

namespace burnish::foreign {

/// The words of --from: kohya, onetrainer, ...
std::vector<std::string> program_words();

/// Reads another program's settings and puts them into the fields of a training run. The program is recognised by its keys unless `from`
/// names it. File names in the settings begin in the current folder, where that program would be started; files that the settings name (a
/// dataset's, say) are looked for there, then beside the settings. Returns the program's title and what became of every name; a data Error
/// for a file that cannot be read or is no settings of a program that is known. What no option holds goes into files beside `output`, whose
/// texts are in the Import: prompts of previews, and several datasets; where there is no output, they are not carried.
std::pair<std::string, Import> import_settings(const std::filesystem::path& path, const std::string& from, config::Fields& fields,
                                               const std::filesystem::path& output = {});

/// The values that were imported, as a TOML file for `burnish train --config`, each with where it comes from; ahead of them, as comments,
/// what was not carried.
std::string to_toml(const config::Fields& fields, const Import& imported, const std::string& source);

}  // namespace burnish::foreign
