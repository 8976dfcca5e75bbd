#pragma once
#include "foreign/program.h"

namespace burnish::foreign {

/// Tells whether a word trains (`embedding`), which alone leaves the model as it is.
bool has_ai_toolkit_word(const Settings& all);
/// Names a word that has no name as ai-toolkit does, and has it stand in every caption, as its trigger word does.
void put_ai_toolkit_word(Value& process, Arranged& arranged);
/// The rows of its keys of a word.
std::vector<SettingRow> ai_toolkit_word_rows();

}  // namespace burnish::foreign
