#pragma once
#include "convert/options.h"

namespace burnish::convert {

/// Reads options.paths but the last, and writes that one as options say; a few words about what was written. A config Error for options
/// that contradict each other or the kind of file that is read, and, without options.overwrite, for a path that is there.
std::string convert(const Options& options);

}  // namespace burnish::convert
