#pragma once
#include "base/column.h"

namespace burnish::data {

/// Tells whether a row may name several clips in a column, which are read one behind the other: of these columns alone a plan has an
/// example, how many it takes.
inline bool takes_several(const Column& column) { return column.is == Column::Is::clip && !column.words.example.empty(); }

}  // namespace burnish::data
