#pragma once
#include "pipeline/twins.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// Before the names of what the model as it was before training computes.
inline const std::string kReference = "reference_";

/// The twins of `units` with the model as it was before training: adapters switched off, and of what trains whole the weights that training
/// begins with, which only units that run before it can see. `units` begin with the inputs; "reference_prediction" is the twin of
/// "prediction". What depends on nothing that trains has no twin.
pipeline::Units reference_units(const pipeline::Units& units, const Subject& subject);

}  // namespace burnish::train
