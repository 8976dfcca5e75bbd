#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_ai_toolkit {

/// The rows of how long and how fast a run trains.
void train_rows(Table& table);
/// The rows of the loss, and of the noise that it is taken at.
void loss_rows(Table& table);

}  // namespace burnish::foreign::of_ai_toolkit
