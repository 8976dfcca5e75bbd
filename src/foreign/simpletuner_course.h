#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_simpletuner {

/// The rows of optimizers.
void optimizer_rows(Table& table);
/// The rows of how long and by what schedule a run trains.
void schedule_rows(Table& table);
/// The rows of how times are drawn.
void time_rows(Table& table);
/// The rows of the loss.
void loss_rows(Table& table);

}  // namespace burnish::foreign::of_simpletuner
