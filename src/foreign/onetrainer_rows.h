#pragma once
#include <string>
#include <vector>

#include "foreign/program.h"

namespace burnish::foreign {

/// Tells its settings by their names, and puts them in the form that its table is written for.
bool onetrainer_recognises(const Value& tree);
Arranged onetrainer_arrange(Value tree, const Open& open);

/// Rows of the numbers of OneTrainer's optimizers that no optimizer here has.
std::vector<Row> onetrainer_numbers(const OptimizerOf& optimizer_of);

/// Tells whether the training method is EMBEDDING, textual inversion, and rows of the settings that it reads.
bool is_onetrainer_embedding(const Settings& all);
/// Say in arranged settings that words train beside an adapter, and that there are several, of which each has a table of its own.
inline const char* const kWordBeside = "word_beside_an_adapter";
inline const char* const kSeveralWords = "several_words";
/// Puts the words that train where that of a run of a word is, if there is one, or else into tables.
void put_words(Value& tree, Arranged& arranged);
std::vector<Row> onetrainer_embedding();

/// Rows of what concepts ask for and no dataset has.
std::vector<Row> onetrainer_concepts();

/// What text.prompt_source says: captions of a concept that come from one file, a line each, are one for all where that is a single line.
Outcome prompt_of_concept(const Value& value, const Settings& all);

/// Rows of a part that the models trained here do not have, or that does not train.
std::vector<Row> onetrainer_other_part(const std::string& part);

/// Rows of what changes nothing of what is learned.
std::vector<Row> onetrainer_needless();

}  // namespace burnish::foreign
