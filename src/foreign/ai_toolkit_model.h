#pragma once
#include <string>

#include "foreign/program.h"

namespace burnish::foreign::of_ai_toolkit {

/// Names our optimizer; "" for one that is not there.
std::string optimizer_of(const Settings& all);
bool has_unet(const Settings& all);
bool flows(const Settings& all);
/// Counts updates in batches: those that are left of whole groups.
int64_t updates(double num_batches, const Settings& all);
/// Carries a number of batches as updates.
Outcome counted_in_batches(const Value& value, const Settings& all);
bool trains_whole(const Settings& all);
/// Names the part that predicts, "dit" or "unet".
std::string denoiser(const Settings& all);
/// Names all parts that train, with commas between them.
std::string trained_parts(const Settings& all);

}  // namespace burnish::foreign::of_ai_toolkit
