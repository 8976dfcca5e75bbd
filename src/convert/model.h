#pragma once
#include "convert/options.h"

namespace burnish::convert {

/// Reads the model options.paths[0...] tensor by tensor, with options.lora merged into it, and writes it to options.paths.back() as a
/// diffusers folder or a single file, in numbers or FP8. What it takes on disk is said and looked for first. A tensor that no option
/// touches is written as it was read, bit for bit. A few words about what was written.
std::string convert_model(const Options& options);

/// Returns what weight_format of a conversion may be.
const std::vector<std::string>& weight_formats();

}  // namespace burnish::convert
