#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_onetrainer {

/// The rows of optimizers and schedules.
void optimizer_rows(Table& table);
/// The rows of how long, how fast and in what memory a run trains.
void train_rows(Table& table);

}  // namespace burnish::foreign::of_onetrainer
