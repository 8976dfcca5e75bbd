#pragma once
#include "train/course/course.h"

namespace burnish::train {

/// Says in a few lines of the log what a run trains on: samples by dataset and how often each is visited, the sizes with most samples
/// first, what is left out and why, and what is visited without an effect. With a course, which may be null, also what an epoch and the run
/// have.
void say_samples(const Samples& samples, const Course* course);

/// Returns the extent that stands for all samples, class sets aside: of extents within a tenth of the median area the one that most samples
/// have, and of several such the one nearest that area. It is an extent that is trained, so the model draws it.
Extent usual_extent(const Samples& samples);

}  // namespace burnish::train
