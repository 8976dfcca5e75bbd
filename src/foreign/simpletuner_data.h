#pragma once
#include "foreign/program.h"

// The datasets of SimpleTuner, which are a list of their own beside its settings (multidatabackend.json).
namespace burnish::foreign {

/// Tells whether a list is one of SimpleTuner's datasets.
bool is_simpletuner_data(const Value& tree);

/// Puts the pictures and clips of such a list under "dataset" in `arranged`, with what its tree says for all of them.
void put_simpletuner_datasets(const Value& list, Arranged& arranged);

/// The rows of what lies under "dataset".
void simpletuner_data_rows(Table& table);

}  // namespace burnish::foreign
