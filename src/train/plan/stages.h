#pragma once
#include "pipeline/schedule.h"
#include "train/objectives/objective.h"
#include "train/options/settings.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// A part of the denoiser of which layers train, and which would otherwise be computed ahead of training and leave memory: one without
/// which its others would read what they do not train. "" where there is none, or where anything is computed ahead as it is.
std::string part_in_the_way(const pipeline::Schedule& schedule, const Subject& subject);

/// When each unit of the run runs, by headers alone. Refuses what cannot be: a missing part or tokenizer of a model, and what is to be
/// computed ahead in any case and cannot be.
pipeline::Schedule plan_schedule(const Settings& settings, const Subject& subject, const Objective& objective);

}  // namespace burnish::train
