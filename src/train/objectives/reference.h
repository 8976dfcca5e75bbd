#pragma once
#include "pipeline/twins.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// The prefix of names of values that the model as it was before training computes.
inline const std::string kReference = "reference_";

/// Makes the twins of `units` with the model as it was before training: adapters are switched off, and a component that trains whole has
/// the weights that training begins with, which only units that run before training can see. `units` begin with the inputs;
/// "reference_prediction" is the twin of "prediction". A unit that depends on nothing that trains has no twin.
pipeline::Units reference_units(const pipeline::Units& units, const Subject& subject);

}  // namespace burnish::train
