#pragma once
#include "config/fields.h"
#include "train/course/settings.h"

namespace burnish::train {

/// Lists options of a run's batches and steps, under a heading of their own.
void fields(config::Fields& f, CourseSettings& o);

}  // namespace burnish::train
