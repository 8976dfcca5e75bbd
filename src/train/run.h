#pragma once
#include "train/budget.h"
#include "train/options.h"

namespace burnish::train {

// A run is a chain of values: settings, subject, objective, schedule, samples, course, kept, trainee. Each is made by one function from
// those before it; what is not made yet cannot be named, and nothing is made twice. What can be refused is refused before the first weight
// is read.

/// Trains, to the end or to Ctrl-C.
void train(const TrainOptions& options);

/// Computes what the frozen models make of the samples, once, into a cache that can be trained from alone, and prints what is there.
void make_cache(const TrainOptions& options);

/// What a run would compute once, ahead and at every step, measured on its first samples. Makes no files.
SplitPlan plan(const TrainOptions& options);

}  // namespace burnish::train
