#pragma once
#include <string>
#include <vector>

#include "studio/studio.h"

namespace burnish::app {

/// Options of a studio that this program starts, for this machine alone and on a free port: `folders` is the workspace as the command line
/// names it, ~/burnish where it names none; a config Error for several. `trusts_settings`: studio::Options.
studio::Options studio_options(const std::vector<std::string>& folders, bool trusts_settings);

}  // namespace burnish::app
