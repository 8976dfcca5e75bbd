#pragma once
#include "base/column.h"

namespace burnish {

/// The example (Column::Words) of a column of clips or pictures cut as the target that rows may leave empty, and which is white then: a
/// mask of what counts, or is to be replaced, everywhere.
constexpr const char* kWhite = "white";

/// Tells whether a row that leaves the column empty has white pixels there.
inline bool is_white_where_empty(const Column& column) { return column.is_seen() && column.words.example == kWhite; }

}  // namespace burnish
