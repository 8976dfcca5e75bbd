#pragma once
#include <string>
#include <vector>

#include "models/model/options.h"

namespace burnish::models::wan {

/// The option of how much of what VACE's blocks make is added to the transformer's tokens.
Option vace_scale_option();

/// Reads it: one number for all blocks, or one for each, with commas between. A config Error for another count.
std::vector<double> vace_scales(const ModelOptions& options, int64_t num_blocks);

/// Tells whether another value than 1 is asked for.
bool scales_vace(const ModelOptions& options);

}  // namespace burnish::models::wan
