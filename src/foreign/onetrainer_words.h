#pragma once
#include <string>
#include <vector>

#include "foreign/program.h"

namespace burnish::foreign::of_onetrainer {

/// Tells whether the training method is EMBEDDING, textual inversion.
bool is_embedding(const Settings& all);
/// Say in arranged settings that words train beside an adapter, and that there are several, of which each has a table of its own.
inline const char* const kWordBeside = "word_beside_an_adapter";
inline const char* const kSeveralWords = "several_words";
/// Puts the words that train where that of a run of a word is, if there is one, or else into tables.
void put_words(Value& tree, Arranged& arranged);
/// Lists the rows of words that train.
std::vector<SettingRow> embedding_rows();

}  // namespace burnish::foreign::of_onetrainer
