#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_kohya {

/// The rows of networks, and of the rates of text encoders.
void network_rows(Table& table);
/// The rows of a word, its vectors and the captions that it stands in.
void inversion_rows(Table& table);

}  // namespace burnish::foreign::of_kohya
