#pragma once
#include "pipeline/schedule.h"
#include "train/objective.h"
#include "train/subject.h"

namespace burnish::train {

/// When each unit of the run runs, by headers alone. Refuses what cannot be: a missing part or tokenizer of a model, and what is to be
/// computed ahead in any case and cannot be.
pipeline::Schedule plan_schedule(const Settings& settings, const Subject& subject, const Objective& objective);

}  // namespace burnish::train
