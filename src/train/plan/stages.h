#pragma once
#include "pipeline/schedule.h"
#include "train/objectives/objective.h"
#include "train/options/settings.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// Finds the part of the denoiser of which layers train, and which would be computed ahead of training and leave memory if none did, even
/// if all other parts train. "" where there is none, or where something is computed ahead as it is.
std::string part_in_the_way(const pipeline::Schedule& schedule, const Subject& subject);

/// Plans by headers alone when each unit of the run runs. Refuses what cannot be: a missing part or tokenizer of a model, and units that
/// are to be computed ahead in any case and cannot be.
pipeline::Schedule plan_schedule(const Settings& settings, const Subject& subject, const Objective& objective);

}  // namespace burnish::train
